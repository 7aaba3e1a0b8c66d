#include "transport/qp/receive_queue.h"

#include <algorithm>
#include <cstring>

#include "transport/qp/credits.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {
namespace {

void withdraw(const Qp& qp) {
  queues::HeldRecv* held = qp.cold->spec.held_recv;
  if (held != nullptr) held->held.store(0, std::memory_order_release);
}

// The receive of a shared queue completes.
void give_back_shared(Qp& qp) {
  Srq& srq = *qp.cold->srq;
  if (qp.rx.message.recv_unpublished()) {
    qp.rx.message.on_recv_published();
    srq.ring.mirror(srq.ring.next());
  } else {
    withdraw(qp);
  }
  if (srq.xrc_domain != 0) let_go_of_srq(qp);
}

}  // namespace

TakeRecv take_recv(Context& ctx, Qp& qp) {
  QpCold& cold = *qp.cold;
  queues::RingConsumer& ring = cold.srq != nullptr ? cold.srq->ring : qp.rx.rq;
  if (ring.entries() == 0 || ring.available() == 0) return TakeRecv::empty;
  const uint32_t max_sge = cold.srq != nullptr ? cold.srq->max_sge : cold.spec.cap.max_recv_sge;
  queues::RecvWqe wqe;
  const std::byte* from = ring.slot();
  std::memcpy(&wqe, from, sizeof wqe);
  const bool valid = wqe.num_sge <= max_sge;
  if (valid) std::memcpy(cold.recv_sges.data(), from + sizeof wqe, wqe.num_sge * sizeof(Sge));
  // The slot of an own queue is given back when the receive completes, so that an application which loses this engine
  // finds it in the ring. The QPs of a shared queue complete in any order: it gets the slot back when the receive has
  // completed, or been published, after this packet.
  ring.advance(1);
  if (cold.srq != nullptr) {
    qp.rx.message.on_shared_recv();
    cold.srq->check_limit(ctx.events);
    if (cold.srq->xrc_domain != 0) hold_srq(qp);
  }
  cold.recv_wr_id = wqe.wr_id;
  qp.rx.message.take_recv(valid ? static_cast<uint8_t>(wqe.num_sge) : uint8_t{0});
  return valid ? TakeRecv::taken : TakeRecv::invalid;
}

WcStatus place_received(const Context& ctx, const Qp& qp, uint64_t offset, std::span<const std::byte> payload) {
  return scatter(ctx, pd_of_recv(qp), {qp.cold->recv_sges.data(), qp.rx.message.recv_num_sge()}, offset, payload);
}

memory::PdId pd_of_recv(const Qp& qp) { return qp.cold->srq != nullptr ? qp.cold->srq->pd : qp.pd; }

// In this order a kill between the stores costs one completion; in the other, there would be two.
void publish_taken_recv(Qp& qp) {
  const QpCold& cold = *qp.cold;
  qp.rx.message.on_recv_published();
  cold.srq->ring.mirror(cold.srq->ring.next());
  queues::HeldRecv* held = held_place_of(qp);
  if (held == nullptr) return;
  held->qpn.store(qp.qpn, std::memory_order_relaxed);
  held->wr_id.store(cold.recv_wr_id, std::memory_order_relaxed);
  held->held.store(1, std::memory_order_release);
}

void forget_recv_in_use(Qp& qp) {
  if (!qp.rx.message.recv_in_use()) return;
  qp.rx.message.drop_recv();
  withdraw(qp);
}

Outcome complete_recv(Context& ctx, Qp& qp, const queues::Cqe& cqe, bool solicited) {
  qp.rx.message.drop_recv();
  // The ring has room before the completion can be polled.
  if (qp.rx.rq.entries() != 0) {
    qp.rx.rq.mirror(qp.rx.rq.next());
  } else if (qp.cold->srq != nullptr) {
    give_back_shared(qp);
  }
  queues::Cqe whole = cqe;
  return report_recv(ctx, qp, whole, solicited);
}

Outcome report_recv(Context& ctx, const Qp& qp, queues::Cqe& cqe, bool solicited) {
  cqe.wr_id = qp.cold->recv_wr_id;
  cqe.qpn = qp.qpn;
  cqe.timestamp_ns = static_cast<uint64_t>(ctx.now.count());
  const bool success = cqe.status == static_cast<uint8_t>(WcStatus::success);
  success ? ctx.counters.recv_completions.add() : ctx.counters.add_error(static_cast<WcStatus>(cqe.status));
  return write_completion(ctx, *qp.rx.recv_cq, cqe, solicited || !success);
}

Outcome complete_recv_with_error(Context& ctx, Qp& qp, WcStatus status) {
  queues::Cqe cqe{};
  cqe.status = static_cast<uint8_t>(status);
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  return complete_recv(ctx, qp, cqe, true);
}

Outcome fail_recv(Context& ctx, Qp& qp, WcStatus status) {
  return complete_recv_with_error(ctx, qp, status) | Outcome::fail(Failure::plain, status);
}

Outcome flush_recv_in_use(Context& ctx, Qp& qp) {
  return qp.rx.message.recv_in_use() ? complete_recv_with_error(ctx, qp, WcStatus::flushed) : Outcome{};
}

uint32_t flush_receives(Context& ctx, Qp& qp, uint32_t most) {
  static_cast<void>(flush_recv_in_use(ctx, qp));
  // The receives of a shared queue belong to all its QPs.
  if (qp.cold->srq != nullptr || qp.rx.rq.entries() == 0) return 0;
  const uint32_t count = std::min(qp.rx.rq.available(), most);
  for (uint32_t left = count; left > 0; --left) {
    std::memcpy(&qp.cold->recv_wr_id, qp.rx.rq.slot(), sizeof(uint64_t));
    qp.rx.rq.advance(1);
    static_cast<void>(complete_recv_with_error(ctx, qp, WcStatus::flushed));
  }
  return count;
}

void report_established(Context& ctx, Qp& qp) {
  if (qp.state != QpState::rtr || qp.cold->communication_established) return;
  qp.cold->communication_established = true;
  ctx.events.on_async_event(AsyncEventType::communication_established, qp.qpn);
}

}  // namespace uroce::transport
