// Receive work requests: taken when a message needs one, filled, completed. From the QP's own queue or a shared one.
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// One event when the queue falls below the limit, which is then disarmed (IBTA vol. 1, 10.2.9.3).
void check_srq_limit(EngineCore& core, Srq& srq) {
  auto& limit = srq.header->limit;
  const uint32_t wanted = limit.load(std::memory_order_relaxed);
  if (wanted == 0 || srq.ring.available() >= wanted) return;
  limit.store(0, std::memory_order_relaxed);
  core.events.on_async_event(AsyncEventType::srq_limit_reached, srq.id);
}

}  // namespace

TakeRecv take_recv(EngineCore& core, Qp& qp) {
  QpCold& cold = *qp.cold;
  queues::RingConsumer& ring = cold.srq != nullptr ? cold.srq->ring : qp.rx.rq;
  if (ring.entries() == 0 || ring.available() == 0) return TakeRecv::empty;
  const uint32_t max_sge = cold.srq != nullptr ? cold.srq->max_sge : cold.spec.cap.max_recv_sge;
  queues::RecvWqe wqe;
  const std::byte* from = ring.slot();
  std::memcpy(&wqe, from, sizeof wqe);
  const bool valid = wqe.num_sge <= max_sge;
  if (valid) std::memcpy(cold.recv_sges.data(), from + sizeof wqe, wqe.num_sge * sizeof(Sge));
  ring.consume(1);
  if (cold.srq != nullptr) check_srq_limit(core, *cold.srq);
  cold.recv_wr_id = wqe.wr_id;
  qp.rx.recv_num_sge = valid ? static_cast<uint8_t>(wqe.num_sge) : 0;
  qp.rx.recv_held = true;
  return valid ? TakeRecv::taken : TakeRecv::invalid;
}

WcStatus scatter(EngineCore& core, const Qp& qp, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload) {
  for (const Sge& sge : sges) {
    if (payload.empty()) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(payload.size(), sge.length - offset);
    const auto place = core.translate(qp, sge.lkey, sge.addr + offset, piece, Access::local_write);
    if (place.result != memory::AccessResult::ok) return WcStatus::local_protection_error;
    std::memcpy(place.host, payload.data(), piece);
    payload = payload.subspan(piece);
    offset = 0;
  }
  return payload.empty() ? WcStatus::success : WcStatus::local_length_error;
}

WcStatus place_received(EngineCore& core, Qp& qp, uint64_t offset, std::span<const std::byte> payload) {
  return scatter(core, qp, {qp.cold->recv_sges.data(), qp.rx.recv_num_sge}, offset, payload);
}

void complete_recv(EngineCore& core, Qp& qp, const queues::Cqe& cqe, bool solicited) {
  qp.rx.recv_held = false;
  queues::Cqe out = cqe;
  out.wr_id = qp.cold->recv_wr_id;
  out.qpn = qp.qpn;
  out.timestamp_ns = static_cast<uint64_t>(core.now.count());
  const bool success = cqe.status == static_cast<uint8_t>(WcStatus::success);
  (success ? core.counters.recv_completions : core.counters.error_completions).add();
  if (!qp.recv_cq->write(out, solicited || !success, core.events)) fail_for_overrun(core, qp);
}

void fail_recv(EngineCore& core, Qp& qp, WcStatus status) {
  queues::Cqe cqe{};
  cqe.status = static_cast<uint8_t>(status);
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  complete_recv(core, qp, cqe, true);
  enter_error(core, qp);
}

void flush_receives(EngineCore& core, Qp& qp) {
  queues::Cqe flushed{};
  flushed.status = static_cast<uint8_t>(WcStatus::flushed);
  flushed.opcode = static_cast<uint8_t>(WcOpcode::recv);
  if (qp.rx.recv_held) complete_recv(core, qp, flushed, true);
  if (qp.cold->srq != nullptr) return;  // What is in a shared queue belongs to all its QPs.
  for (uint32_t left = qp.rx.rq.entries() == 0 ? 0 : qp.rx.rq.available(); left > 0; --left) {
    std::memcpy(&qp.cold->recv_wr_id, qp.rx.rq.slot(), sizeof(uint64_t));
    qp.rx.rq.consume(1);
    complete_recv(core, qp, flushed, true);
  }
}

uint8_t credits_now(const Qp& qp) {
  // 9.7.7.2.1: no credits are offered from a shared receive queue.
  if (qp.cold->srq != nullptr || qp.rx.rq.entries() == 0) return wire::Aeth::kNoCreditLimit;
  return credit_code(qp.rx.rq.available() + (qp.rx.recv_held ? 1 : 0));
}

}  // namespace uroce::transport
