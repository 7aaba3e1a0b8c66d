// The responder: checks each request, executes it, and decides the answer (IBTA vol. 1, 9.7.4 to 9.7.5, 9.8).
#include <atomic>

#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

using wire::NakCode;
using wire::Op;

// Each check returns whether the request goes on; when it does not, the answer has been queued.
enum class Step { next, stop };

// Answers with a NAK and ends the connection on this side (9.9.3, table 57).
Step reject(EngineCore& core, Qp& qp, Psn psn, NakCode code) {
  queue_reply(core, qp, psn, wire::Aeth::nak(code));
  AsyncEventType event = AsyncEventType::qp_fatal;
  if (code == NakCode::invalid_request) event = AsyncEventType::qp_request_error;
  if (code == NakCode::remote_access) event = AsyncEventType::qp_access_error;
  // 9.7.5.1.1: requests before this one are answered first, or the peer takes their answers for lost.
  enter_error(core, qp, WcStatus::success, Answers::keep);
  core.events.on_async_event(event, qp.qpn);
  return Step::stop;
}

// As reject(), for a fault of the receive in use: that completes with its own status first.
Step reject_recv(EngineCore& core, Qp& qp, Psn psn, WcStatus status, NakCode code) {
  queues::Cqe cqe{};
  cqe.status = static_cast<uint8_t>(status);
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  complete_recv(core, qp, cqe, true);
  return reject(core, qp, psn, code);
}

// 9.7.4.1.3: within a message only its own kind may follow; outside only a First or an Only.
bool in_sequence(const Qp& qp, wire::OpFlags op) {
  const bool first = op.has(Op::first);
  switch (qp.rx.message) {
    case Recv::none: return first;
    case Recv::send: return !first && op.has(Op::send);
    case Recv::write: return !first && op.has(Op::write);
  }
  return false;
}

// 9.7.4.1.6: full packets within a message, 1 to PMTU at its end, 0 to PMTU alone.
bool length_fits(const Qp& qp, wire::OpFlags op, std::size_t payload) {
  const bool first = op.has(Op::first);
  if (!op.has(Op::last)) return payload == qp.mtu();
  return payload <= qp.mtu() && (first || payload > 0);
}

Step need_recv(EngineCore& core, Qp& qp, Psn psn) {
  switch (take_recv(core, qp)) {
    case TakeRecv::taken: return Step::next;
    case TakeRecv::invalid:
      return reject_recv(core, qp, psn, WcStatus::local_qp_operation_error, NakCode::remote_operational);
    case TakeRecv::empty: break;
  }
  // What follows this packet is out of order until it comes again, and is not NAKed a second time.
  queue_reply(core, qp, psn, wire::Aeth::rnr(qp.min_rnr_timer));
  qp.rx.nak_sent = true;
  return Step::stop;
}

void advance(Qp& qp, uint32_t packets) {
  qp.rx.expected += packets;
  qp.rx.nak_sent = false;
}

void finish_message(EngineCore& core, Qp& qp, const wire::Packet& packet, WcOpcode opcode) {
  auto& rx = qp.rx;
  rx.msn = (rx.msn + 1) & Psn::kMask;
  rx.message = Recv::none;
  if (!rx.recv_held) return;
  const wire::OpFlags op = packet.op().flags;
  queues::Cqe cqe{};
  cqe.byte_len = rx.received;
  cqe.opcode = static_cast<uint8_t>(opcode);
  cqe.imm_or_key = packet.imm;
  if (op.has(Op::imm)) cqe.flags = WcFlags(WcFlag::with_imm).bits();
  if (op.has(Op::ieth)) cqe.flags = WcFlags(WcFlag::with_invalidate).bits();
  complete_recv(core, qp, cqe, packet.bth.solicited);
}

Step execute_send(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  if (op.has(Op::first)) {
    if (need_recv(core, qp, psn) == Step::stop) return Step::stop;
    rx.received = 0;
  }
  const WcStatus placed = place_received(core, qp, rx.received, packet.payload);
  if (placed == WcStatus::local_length_error) return reject_recv(core, qp, psn, placed, NakCode::invalid_request);
  if (placed != WcStatus::success) return reject_recv(core, qp, psn, placed, NakCode::remote_operational);
  if (op.has(Op::ieth) && core.regions.invalidate(packet.imm, qp.pd, qp.qpn) != memory::AccessResult::ok) {
    // 9.4.1.1.3: a key that cannot be invalidated is a remote access error.
    return reject(core, qp, psn, NakCode::remote_access);
  }
  rx.received += static_cast<uint32_t>(packet.payload.size());
  rx.message = Recv::send;
  advance(qp, 1);
  if (op.has(Op::last)) finish_message(core, qp, packet, WcOpcode::recv);
  return Step::next;
}

// The first packet of a WRITE names the whole target, which is checked before a byte is placed (9.7.4.1.5).
Step begin_write(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::Reth& reth = packet.reth;
  if (reth.length > kMaxMessage) return reject(core, qp, packet.bth.psn, NakCode::invalid_request);
  if (reth.length > 0 &&
      core.translate(qp, reth.rkey, reth.va, reth.length, Access::remote_write).result != memory::AccessResult::ok) {
    return reject(core, qp, packet.bth.psn, NakCode::remote_access);
  }
  rx.write_va = reth.va;
  rx.write_left = reth.length;
  rx.rkey = reth.rkey;
  rx.received = reth.length;
  return Step::next;
}

Step execute_write(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  if (op.has(Op::first) && begin_write(core, qp, packet) == Step::stop) return Step::stop;
  const uint32_t length = static_cast<uint32_t>(packet.payload.size());
  // 9.7.4.1.6: the packets carry exactly the length that the RETH announced.
  if (op.has(Op::last) ? length != rx.write_left : length >= rx.write_left) {
    return reject(core, qp, psn, NakCode::invalid_request);
  }
  std::byte* place = nullptr;
  if (length > 0) {
    // Looked up for every packet: the region may have gone since the first.
    const auto target = core.translate(qp, rx.rkey, rx.write_va, length, Access::remote_write);
    if (target.result != memory::AccessResult::ok) return reject(core, qp, psn, NakCode::remote_access);
    place = target.host;
  }
  if (op.has(Op::takes_recv) && need_recv(core, qp, psn) == Step::stop) return Step::stop;
  if (length > 0) std::memcpy(place, packet.payload.data(), length);
  rx.write_va += length;
  rx.write_left -= length;
  rx.message = Recv::write;
  advance(qp, 1);
  if (op.has(Op::last)) finish_message(core, qp, packet, WcOpcode::recv_rdma_with_imm);
  return Step::next;
}

Step execute_read(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  const Psn psn = packet.bth.psn;
  if (reth.length > kMaxMessage) return reject(core, qp, psn, NakCode::invalid_request);
  if (reth.length > 0 &&
      core.translate(qp, reth.rkey, reth.va, reth.length, Access::remote_read).result != memory::AccessResult::ok) {
    return reject(core, qp, psn, NakCode::remote_access);
  }
  Resource* resource = new_resource(qp);
  if (resource == nullptr) return reject(core, qp, psn, NakCode::invalid_request);
  resource->first_psn = psn;
  resource->packets = reth.length == 0 ? 1 : (reth.length + qp.mtu() - 1) >> qp.mtu_shift;
  resource->va = reth.va;
  resource->rkey = reth.rkey;
  resource->length = reth.length;
  qp.rx.msn = (qp.rx.msn + 1) & Psn::kMask;  // C9-148: when the READ is executed, not when it is answered.
  resource->msn = qp.rx.msn;
  advance(qp, resource->packets);
  push_job(core, qp, *resource, 0, resource->packets, true);
  return Step::stop;  // Its answer is the acknowledgement.
}

Step execute_atomic(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  const wire::AtomicEth& atomic = packet.atomic;
  const Psn psn = packet.bth.psn;
  // 9.4.5.2: the target is naturally aligned.
  if ((atomic.va & 7) != 0) return reject(core, qp, psn, NakCode::invalid_request);
  const auto target = core.translate(qp, atomic.rkey, atomic.va, sizeof(uint64_t), Access::remote_atomic);
  if (target.result != memory::AccessResult::ok) return reject(core, qp, psn, NakCode::remote_access);
  if (reinterpret_cast<uintptr_t>(target.host) % sizeof(uint64_t) != 0) {
    return reject(core, qp, psn, NakCode::invalid_request);
  }
  Resource* resource = new_resource(qp);
  if (resource == nullptr) return reject(core, qp, psn, NakCode::invalid_request);
  // Atomic towards every engine and CPU that uses an atomic instruction on the same word.
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(target.host));
  uint64_t before = atomic.compare;
  if (packet.bth.opcode == wire::Opcode::rc_fetch_add) {
    before = word.fetch_add(atomic.swap_add, std::memory_order_seq_cst);
  } else {
    word.compare_exchange_strong(before, atomic.swap_add, std::memory_order_seq_cst);
  }
  resource->first_psn = psn;
  resource->packets = 1;
  resource->atomic = true;
  resource->atomic_result = before;
  resource->va = atomic.va;
  resource->rkey = atomic.rkey;
  qp.rx.msn = (qp.rx.msn + 1) & Psn::kMask;
  resource->msn = qp.rx.msn;
  advance(qp, 1);
  push_job(core, qp, *resource, 0, 1, true);
  return Step::stop;
}

void on_gap(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (qp.tx.selective) return park(core, qp, packet);
  core.count_drop(wire::Drop::psn_out_of_order);
  if (qp.rx.nak_sent) return;  // One NAK per gap, until the expected packet arrives.
  qp.rx.nak_sent = true;
  queue_reply(core, qp, qp.rx.expected, wire::Aeth::nak(NakCode::psn_sequence));
}

bool permitted(const Qp& qp, wire::OpFlags op) {
  if (op.has(Op::write)) return qp.access.has(Access::remote_write);
  if (op.has(Op::read)) return qp.access.has(Access::remote_read);
  if (op.has(Op::atomic)) return qp.access.has(Access::remote_atomic);
  return true;
}

Step execute(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  // 9.7.4.1.4: an operation that the QP does not offer is an invalid request.
  if (!in_sequence(qp, op) || !permitted(qp, op)) return reject(core, qp, psn, NakCode::invalid_request);
  if (op.has(Op::payload) && !length_fits(qp, op, packet.payload.size())) {
    return reject(core, qp, psn, NakCode::invalid_request);
  }
  if (op.has(Op::send)) return execute_send(core, qp, packet);
  if (op.has(Op::write)) return execute_write(core, qp, packet);
  if (op.has(Op::read)) return execute_read(core, qp, packet);
  return execute_atomic(core, qp, packet);
}

}  // namespace

void on_request(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (qp.state != QpState::rtr && qp.state != QpState::rts && qp.state != QpState::sqd) {
    core.count_drop(wire::Drop::qp_state);
    return;
  }
  if (qp.state == QpState::rtr && !qp.cold->communication_established) {
    qp.cold->communication_established = true;
    core.events.on_async_event(AsyncEventType::communication_established, qp.qpn);
  }
  const int32_t ahead = distance(packet.bth.psn, qp.rx.expected);
  if (ahead > 0) return on_gap(core, qp, packet);
  if (ahead < 0) {
    if (qp.tx.selective) note_arrival(core, qp, packet, true);
    return on_duplicate(core, qp, packet);
  }
  if (qp.tx.selective && packet.bth.ack_request) note_arrival(core, qp, packet, false);
  take_request(core, qp, packet);
  if (qp.rx.has_parked) unpark(core, qp, packet.bth.psn);
}

void take_request(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (execute(core, qp, packet) == Step::next && packet.bth.ack_request) {
    queue_reply(core, qp, packet.bth.psn, wire::Aeth::ack(0));
  }
}

}  // namespace uroce::transport
