#include "transport/rc/execute.h"

#include <atomic>
#include <cstring>

#include "base/wr_opcodes.h"
#include "transport/core/guess.h"
#include "transport/core/tape.h"
#include "transport/qp/inbound_write.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {
namespace {

using wire::NakCode;
using wire::Op;

// Does the request go on to the next step? If it does not, its reply or response has been queued.
enum class Step : bool { next, stop };
struct Checked {
  Step step = Step::next;
  Outcome out;
};
constexpr Checked kNext{};

// Queues a NAK and ends the connection on this side (9.9.3, table 57). Rejections are not inlined: their registers
// would be saved for every packet.
[[gnu::cold, gnu::noinline]] Checked reject(Qp& qp, Psn psn, NakCode code) {
  AsyncEventType event = AsyncEventType::qp_fatal;
  if (code == NakCode::invalid_request) event = AsyncEventType::qp_request_error;
  if (code == NakCode::remote_access) event = AsyncEventType::qp_access_error;
  return {Step::stop, qp.responses.queue_reply(psn, wire::Aeth::nak(code)) | Outcome::fail(Failure::responder, event)};
}

// Before a wrong key ends the connection. The packet was the next one, so a stranger needs 2^24 frames to forge it.
[[gnu::cold, gnu::noinline]] void report_wrong_key(Context& ctx, const Qp& qp, const wire::Packet& packet) {
  count_guess(ctx, packet, Guess::rkey);
  ctx.events.on_wrong_key(packet.source(), qp.qpn);
}

// As reject(), for memory that the packet's key does not open.
[[gnu::cold, gnu::noinline]] Checked reject_key(Context& ctx, Qp& qp, const wire::Packet& packet) {
  report_wrong_key(ctx, qp, packet);
  return reject(qp, packet.bth.psn, NakCode::remote_access);
}

// As reject(), for an error of the receive in use, which completes with `status` first.
[[gnu::cold, gnu::noinline]] Checked reject_recv(Context& ctx, Qp& qp, Psn psn, WcStatus status, NakCode code) {
  const Outcome completed = complete_recv_with_error(ctx, qp, status);
  return {Step::stop, completed | reject(qp, psn, code).out};
}

// The rights that a FLUSH needs of the queue pair and of the region.
AccessFlags placement_flush_access(const wire::Feth& feth) {
  const auto placement = PlacementFlags::from_bits(feth.placement);
  AccessFlags needed;
  if (placement.has(Placement::global)) needed |= Access::flush_global;
  if (placement.has(Placement::persistent)) needed |= Access::flush_persistent;
  return needed;
}

bool permitted(const Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  if (op.has_any(Op::write | Op::atomic_write)) return qp.access.has(Access::remote_write);
  if (op.has(Op::read)) return qp.access.has(Access::remote_read);
  if (op.has(Op::atomic)) return qp.access.has(Access::remote_atomic);
  if (op.has(Op::placement_flush)) return qp.access.has_all(placement_flush_access(packet.feth));
  return true;
}

Checked need_recv(Context& ctx, Qp& qp, Psn psn) {
  switch (take_recv(ctx, qp)) {
    case TakeRecv::taken: return kNext;
    case TakeRecv::invalid:
      return reject_recv(ctx, qp, psn, WcStatus::local_qp_operation_error, NakCode::remote_operational);
    case TakeRecv::empty: break;
  }
  // Later packets are out of order until this one is sent again. They get no NAK of their own.
  return {Step::stop, qp.responses.queue_gap_nak(psn, wire::Aeth::rnr(qp.min_rnr_timer))};
}

// 9.9.3, class C: the receive that the immediate data would complete ends with the error; the others are flushed. Here
// the buffer is a local one, so a bad key is a local access error (11.6.2).
[[gnu::cold, gnu::noinline]] Checked reject_write(Context& ctx, Qp& qp, const wire::Packet& packet, NakCode code) {
  const Psn psn = packet.bth.psn;
  const bool access = code == NakCode::remote_access;
  if (access) report_wrong_key(ctx, qp, packet);
  const bool takes = packet.op().flags.has(Op::takes_recv) && take_recv(ctx, qp) != TakeRecv::empty;
  if (!takes) return reject(qp, psn, code);
  return reject_recv(ctx, qp, psn, access ? WcStatus::local_access_error : WcStatus::remote_invalid_request, code);
}

Outcome finish_message(Context& ctx, Qp& qp, const wire::Packet& packet, WcOpcode opcode) {
  InboundMessage& message = qp.rx.message;
  qp.rx.count_message();
  message.end();
  if (!message.recv_in_use()) return {};
  queues::Cqe cqe = completion_of(packet, opcode, message.bytes());
  if (packet.op().flags.has(Op::ieth)) cqe.flags = WcFlags(WcFlag::with_invalidate).bits();
  return complete_recv(ctx, qp, cqe, packet.bth.solicited);
}

// 9.9.3, class J: a SEND whose key cannot be invalidated has arrived. The class has no NAK: the receive fails, the
// others are flushed, and the connection ends on this side alone. The SEND itself did not fail, since the key is
// invalidated after the data are placed (9.4.1.1.3), so it is acknowledged. Linux rxe (RESPST_ERR_INVALIDATE_RKEY) does
// the same.
Checked fail_invalidation(Context& ctx, Qp& qp, const wire::Packet& packet) {
  report_wrong_key(ctx, qp, packet);
  qp.rx.count_message();
  qp.expect_next(1);
  Outcome out = complete_recv_with_error(ctx, qp, WcStatus::remote_invalid_request);
  if (packet.bth.ack_request) out |= qp.responses.queue_ack(packet.bth.psn);
  return {Step::stop, out | Outcome::fail(Failure::responder, AsyncEventType::qp_access_error)};
}

Checked execute_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  InboundMessage& message = qp.rx.message;
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  if (op.has(Op::first)) {
    if (const Checked taken = need_recv(ctx, qp, psn); taken.step == Step::stop) return taken;
    message.begin_send();
  }
  const WcStatus placed = place_received(ctx, qp, message.bytes(), packet.payload);
  if (placed == WcStatus::local_length_error) return reject_recv(ctx, qp, psn, placed, NakCode::invalid_request);
  if (placed != WcStatus::success) return reject_recv(ctx, qp, psn, placed, NakCode::remote_operational);
  if (op.has(Op::ieth) && ctx.regions.invalidate(packet.imm, qp.pd, qp.qpn) != memory::AccessResult::ok) {
    return fail_invalidation(ctx, qp, packet);
  }
  message.add_to_send(static_cast<uint32_t>(packet.payload.size()));
  qp.expect_next(1);
  return {Step::next, op.has(Op::last) ? finish_message(ctx, qp, packet, WcOpcode::recv) : Outcome{}};
}

Checked execute_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  memory::Translation place{};
  if (op.has(Op::first)) {
    switch (begin_write(ctx, qp, packet.reth, place)) {
      case WriteTarget::ok: break;
      case WriteTarget::too_long: return reject_write(ctx, qp, packet, NakCode::invalid_request);
      case WriteTarget::no_access: return reject_write(ctx, qp, packet, NakCode::remote_access);
    }
  }
  const uint32_t length = static_cast<uint32_t>(packet.payload.size());
  if (!qp.rx.message.fits_reth(op, length)) return reject_write(ctx, qp, packet, NakCode::invalid_request);
  place = next_write_place(ctx, qp, op, length, place);
  if (place.result != memory::AccessResult::ok) return reject_write(ctx, qp, packet, NakCode::remote_access);
  if (op.has(Op::takes_recv)) {
    if (const Checked taken = need_recv(ctx, qp, psn); taken.step == Step::stop) return taken;
  }
  // Until the payload of a later packet is there nothing changes.
  if (!op.has_any(Op::first | Op::takes_recv)) ctx.hand.drop();
  place_write(place, packet.payload);
  ctx.hand.take(qp);
  qp.rx.message.add_to_write(length);
  qp.expect_next(1);
  return {Step::next, op.has(Op::last) ? finish_message(ctx, qp, packet, WcOpcode::recv_rdma_with_imm) : Outcome{}};
}

// The response is the acknowledgement.
constexpr Checked kAnswered{Step::stop, Outcome::wake()};

Checked execute_read(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  const Psn psn = packet.bth.psn;
  if (reth.length > kMaxMessage) return reject(qp, psn, NakCode::invalid_request);
  if (reth.length > 0 &&
      translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_read).result != memory::AccessResult::ok) {
    return reject_key(ctx, qp, packet);
  }
  return answer_read(qp, packet, qp.packets_of(reth.length)) ? kAnswered : reject(qp, psn, NakCode::invalid_request);
}

// Atomic with respect to every engine and CPU that uses atomic instructions on the same word. Returns the old value.
uint64_t run_atomic(std::byte* at, const wire::Packet& packet) {
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(at));
  const wire::AtomicEth& atomic = packet.atomic;
  if (wire::as_rc(packet.bth.opcode) == wire::Opcode::rc_fetch_add) {
    return word.fetch_add(atomic.swap_add, std::memory_order_seq_cst);
  }
  uint64_t before = atomic.compare;
  word.compare_exchange_strong(before, atomic.swap_add, std::memory_order_seq_cst);
  return before;
}

Checked execute_atomic(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::AtomicEth& atomic = packet.atomic;
  const Psn psn = packet.bth.psn;
  // 9.4.5.2: the target is naturally aligned.
  if ((atomic.va & 7) != 0) return reject(qp, psn, NakCode::invalid_request);
  const auto target = translate(ctx, qp, atomic.rkey, atomic.va, sizeof(uint64_t), Access::remote_atomic);
  if (target.result != memory::AccessResult::ok) return reject_key(ctx, qp, packet);
  if (!is_atomic_word(target.host)) return reject(qp, psn, NakCode::invalid_request);
  return answer_atomic(ctx, qp, packet, target.host) ? kAnswered : reject(qp, psn, NakCode::invalid_request);
}

// A READ response without data is the answer, so a READ of no bytes is kept for duplicates.
Checked answer_placement(Qp& qp, Resource& resource, const wire::Packet& packet) {
  resource.first_psn = packet.bth.psn;
  resource.packets = 1;
  resource.va = packet.reth.va;
  resource.rkey = packet.reth.rkey;
  queue_response(qp, resource);
  return kAnswered;
}

// Annex A19: the eight bytes arrive at once, and after those of all requests before.
Checked execute_atomic_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  const Psn psn = packet.bth.psn;
  uint64_t value = 0;
  const bool whole = reth.length == sizeof value && packet.payload.size() == sizeof value;
  if (!whole || (reth.va & 7) != 0) return reject(qp, psn, NakCode::invalid_request);
  const auto target = translate(ctx, qp, reth.rkey, reth.va, sizeof value, Access::remote_write);
  if (target.result != memory::AccessResult::ok) return reject_key(ctx, qp, packet);
  if (!is_atomic_word(target.host)) return reject(qp, psn, NakCode::invalid_request);
  Resource* resource = qp.cold->replay.add();
  if (resource == nullptr) return reject(qp, psn, NakCode::invalid_request);
  std::memcpy(&value, packet.payload.data(), sizeof value);
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(target.host)).store(value, std::memory_order_release);
  return answer_placement(qp, *resource, packet);
}

// Annex A19. Processors see each other's stores, so a fence is all that global visibility takes. Persistence never gets
// here: no region offers it.
Checked execute_placement_flush(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  const Psn psn = packet.bth.psn;
  const auto scope = static_cast<FlushScope>(packet.feth.selectivity);
  const bool defined = is_placement_flush_target(PlacementFlags::from_bits(packet.feth.placement), scope);
  if (!defined || reth.length > kMaxMessage) return reject(qp, psn, NakCode::invalid_request);
  const AccessFlags needed = placement_flush_access(packet.feth);
  const memory::AccessResult opened = scope == FlushScope::region
                                          ? ctx.regions.check_key(reth.rkey, qp.pd, needed, qp.qpn)
                                          : translate(ctx, qp, reth.rkey, reth.va, reth.length, needed).result;
  if (opened != memory::AccessResult::ok) return reject_key(ctx, qp, packet);
  Resource* resource = qp.cold->replay.add();
  if (resource == nullptr) return reject(qp, psn, NakCode::invalid_request);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return answer_placement(qp, *resource, packet);
}

// Inlined twice, so that XRC costs RC nothing.
[[gnu::always_inline]] inline Checked execute(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  // 9.7.4.1.4: an operation that the QP does not offer is an invalid request.
  if (!qp.rx.message.may_go_on_with(op) || !permitted(qp, packet)) return reject(qp, psn, NakCode::invalid_request);
  if (op.has(Op::payload) && !payload_fits_mtu(qp, op, packet.payload.size())) {
    return reject(qp, psn, NakCode::invalid_request);
  }
  if (op.has(Op::send)) return execute_send(ctx, qp, packet);
  if (op.has(Op::write)) return execute_write(ctx, qp, packet);
  if (op.has(Op::read)) return execute_read(ctx, qp, packet);
  if (op.has(Op::atomic)) return execute_atomic(ctx, qp, packet);
  return op.has(Op::placement_flush) ? execute_placement_flush(ctx, qp, packet) : execute_atomic_write(ctx, qp, packet);
}

// XRC: the shared receive queue that the request names lends its receives and its protection domain.
[[gnu::cold, gnu::noinline]] Checked execute_for_srq(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (!borrow_srq(ctx, qp, packet)) return reject(qp, packet.bth.psn, NakCode::invalid_request);
  const Checked done = execute(ctx, qp, packet);
  return_srq(qp);
  return done;
}

}  // namespace

bool answer_atomic(const Context& ctx, Qp& qp, const wire::Packet& packet, std::byte* word) {
  Resource* resource = qp.cold->replay.reuse();
  if (resource == nullptr) return false;
  *resource = {.first_psn = packet.bth.psn,
               .packets = 1,
               .va = packet.atomic.va,
               .atomic_result = run_atomic(word, packet),
               .rkey = packet.atomic.rkey,
               .atomic = true,
               .busy = true};
  if (ctx.config.tape != nullptr) [[unlikely]]
    ctx.config.tape->taken(std::as_writable_bytes(std::span(&resource->atomic_result, 1)));
  queue_response(qp, *resource);
  return true;
}

Outcome execute_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const Checked done = qp.type == QpType::rc ? execute(ctx, qp, packet) : execute_for_srq(ctx, qp, packet);
  const bool acknowledge = done.step == Step::next && packet.bth.ack_request;
  return acknowledge ? done.out | qp.responses.queue_ack(packet.bth.psn) : done.out;
}

}  // namespace uroce::transport
