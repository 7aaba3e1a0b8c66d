#include "transport/qp/qp.h"

#include <new>

#include <cerrno>

#include "base/wr_opcodes.h"

namespace uroce::transport {

Result<QpPtr> make_qp(const QpSpec& spec) {
  QpPtr qp(new (std::nothrow) Qp);
  if (qp == nullptr)
    return fail(ENOMEM, "cannot create QP: out of memory; destroy some objects or raise the process's memory limit");
  try {
    qp->cold = new QpCold;
    QpCold& cold = *qp->cold;
    cold.spec = spec;
    cold.attr.cap = spec.cap;
    cold.srq = spec.srq;
    cold.qp = qp.get();
    cold.ack_timer.owner = &cold;
    cold.hello_timer.owner = cold.pacing_timer.owner = qp.get();
    cold.hello_timer.kind = QpCold::kHelloKind;
    const uint32_t tail = std::max<uint32_t>(spec.cap.max_send_sge * sizeof(Sge), spec.cap.max_inline_data);
    // From its operands to its tail, in whole lines. The operands of the first are in a line of their own.
    cold.send_slot_stride = (static_cast<uint32_t>(sizeof(SendSlot::Operands) + sizeof(SendSlot)) + tail + 63) & ~63u;
    cold.send_slots.resize(spec.sq.entries * (cold.send_slot_stride / sizeof(Line)) + 1);
    if (is_reliable(spec.type)) cold.recovery = std::make_unique<Recovery>(spec.window_packets);
    // Any shared receive queue of its domain may serve a target.
    const uint32_t own_sges = spec.type == QpType::xrc_target ? kMaxSge : spec.cap.max_recv_sge;
    cold.recv_sges.resize(spec.srq != nullptr ? spec.srq->max_sge : own_sges);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "cannot create QP: no memory for its queues; ask for fewer or smaller work requests");
  }
  qp->qpn = spec.qpn;
  qp->type = spec.type;
  qp->pd = spec.pd;
  qp->signal_all = spec.signal_all;
  qp->send_cq = spec.send_cq;
  qp->rx.recv_cq = spec.recv_cq;
  qp->tx.sq = queues::RingConsumer(spec.sq);
  qp->tx.slots = reinterpret_cast<SendSlot*>(&qp->cold->send_slots[1]);
  qp->tx.slot_stride = qp->cold->send_slot_stride;
  qp->tx.max_sge = static_cast<uint8_t>(spec.cap.max_send_sge);
  qp->tx.max_inline = static_cast<uint16_t>(spec.cap.max_inline_data);
  qp->tx.doorbell = spec.sq_doorbell;
  qp->tx.recovery = qp->cold->recovery.get();
  qp->rx.rq = queues::RingConsumer(spec.rq);
  return qp;
}

void reset_qp(Qp& qp) {
  QpCold& cold = *qp.cold;
  auto& tx = qp.tx;
  auto& rx = qp.rx;
  // Posted work requests are forgotten without completions (IBTA vol. 1, 10.3.1.1).
  tx.sq.consume(tx.sq.available());
  if (rx.rq.entries() != 0) {
    rx.rq.consume(rx.rq.available());
    cold.spec.rq.header->wants_doorbell.store(0, std::memory_order_seq_cst);
  }
  const queues::RingConsumer sq = tx.sq;
  const queues::RingConsumer rq = rx.rq;
  Qp::Requester fresh;
  fresh.sq = sq;
  fresh.slots = tx.slots;
  fresh.slot_stride = tx.slot_stride;
  fresh.max_sge = tx.max_sge;
  fresh.max_inline = tx.max_inline;
  fresh.doorbell = tx.doorbell;
  fresh.recovery = tx.recovery;
  fresh.owner = tx.owner;
  fresh.next_in_run_queue = tx.next_in_run_queue;
  fresh.previous_in_run_queue = tx.previous_in_run_queue;
  fresh.oldest = sq.next();
  fresh.cursor = SendCursor(sq.next());
  tx = fresh;
  CqWriter* const recv_cq = rx.recv_cq;
  rx = Qp::Responder{};
  rx.rq = rq;
  rx.recv_cq = recv_cq;
  const QpCap cap = cold.attr.cap;
  cold.attr = QpAttr{};
  cold.attr.cap = cap;
  qp.responses = ResponseQueue{};
  qp.responses.clear(cold.replay);
  cold.communication_established = false;
  cold.sq_drained_reported = false;
  cold.congestion.reset();
  cold.algorithm = CongestionAlgorithm::none;
  cold.cnp = {};
  cold.path_changes = 0;
  qp.paced = false;
  qp.end_selective();
  qp.discovers = false;
  qp.flushing = false;
  qp.rung = true;
  qp.ecn = 0;
  qp.access = {};
  qp.state = QpState::reset;
}

}  // namespace uroce::transport
