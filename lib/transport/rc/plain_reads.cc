#include "transport/rc/plain_reads.h"

#include "transport/qp/memory_access.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/plain_wqe.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/completer.h"
#include "transport/rc/execute.h"
#include "transport/rc/progress.h"
#include "transport/rc/request_packets.h"
#include "transport/rc/responder.h"
#include "transport/rc/response_receiver.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// --- Requests -----------------------------------------------------------------------------------------------------

void emit_plain_read(Context& ctx, Qp& qp, PeerHeaders& headers, const SendSlot& slot, bool more) {
  const Psn psn = slot.first_psn;
  TxFrame& frame = ctx.builder.next();
  if (slot.is_read()) {
    wire::Reth{slot.remote_addr, slot.rkey, slot.length}.store(
        headers.write(frame, Opcode::rc_read_request, psn, wire::Reth::kBytes, {}, more));
  } else {
    atomic_header(slot).store(headers.write(frame, atomic_opcode(slot), psn, wire::AtomicEth::kBytes, {}, more));
  }
  add_new(ctx, qp, frame, psn);
}

// --- Their execution ----------------------------------------------------------------------------------------------

bool try_read(const Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::Reth& reth = packet.reth;
  if (reth.length - 1 >= qp.mtu() || !qp.access.has(Access::remote_read)) return false;
  const auto place = translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_read);
  return place.result == memory::AccessResult::ok && answer_read(qp, packet, 1);
}

bool try_atomic(const Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::AtomicEth& atomic = packet.atomic;
  if ((atomic.va & 7) != 0 || !qp.access.has(Access::remote_atomic)) return false;
  const auto word = translate(ctx, qp, atomic.rkey, atomic.va, sizeof(uint64_t), Access::remote_atomic);
  if (word.result != memory::AccessResult::ok || !is_atomic_word(word.host)) return false;
  return answer_atomic(ctx, qp, packet, word.host);
}

// --- Responses ----------------------------------------------------------------------------------------------------

// The oldest request, where this is its whole response and nothing else is missing or kept; otherwise nullptr.
const SendSlot* answered_by(const Qp& qp, const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  const SendSlot* const slot = awaiting(qp, psn);
  if (slot == nullptr || slot->first_psn != psn || slot->packets != 1 || slot->num_sge != 1) return nullptr;
  const bool alike = packet.bth.opcode == Opcode::rc_atomic_ack ? slot->is_atomic() : slot->is_read();
  return alike ? slot : nullptr;
}

[[gnu::noinline]] Outcome on_other_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.hand.take(qp);
  const bool atomic = packet.bth.opcode == Opcode::rc_atomic_ack;
  return atomic ? on_atomic_ack(ctx, qp, packet) : on_read_response(ctx, qp, packet);
}

// The bytes that the response carries; empty where it is wrong. The result of an atomic is delivered in the host's byte
// order (10.7.2.3).
std::span<const std::byte> result_of(const SendSlot& slot, const wire::Packet& packet) {
  if (slot.is_atomic()) return std::as_bytes(std::span(&packet.atomic_ack, 1));
  return packet.payload.size() == slot.length ? packet.payload : std::span<const std::byte>{};
}

// May the oldest request go on by what has arrived already?
bool more_is_known(const Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.oldest == tx.sq.next()) return false;
  const SendSlot& slot = qp.slot(tx.oldest);
  return slot.started && !slot.has_response();
}

}  // namespace

PlainReads transmit_plain_reads(Context& ctx, Qp& qp) {
  if (!may_send_plain(qp)) return {};
  auto& tx = qp.tx;
  const Psn first = tx.next;
  const uint32_t mtu = qp.mtu();
  PeerHeaders headers(ctx, qp, ctx.request_headers);
  PlainReads done;
  for (uint32_t left = fetchable(qp); left > 0 && !ctx.builder.full(); --left) {
    const PlainWqe wqe(tx.sq.slot());
    if (!wqe.is_plain_read(mtu)) break;
    if (!responses_fit(ctx, qp, 1)) {
      done.waits = tx.rd_atomic > 0;
      break;
    }
    const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, Access::local_write);
    if (place.result != memory::AccessResult::ok) break;
    SendSlot& slot = qp.slot(tx.sq.next());
    wqe.fill(slot, tx.next, tx.credits.next_message());
    if (slot.is_atomic()) wqe.fill_operands(slot);
    ++tx.rd_atomic;
    emit_plain_read(ctx, qp, headers, slot, left > 1);
    tx.sq.advance(1);
    tx.cursor.move_to(tx.sq.next());
    tx.sent = ++tx.next;
  }
  if (tx.next != first) done.out = begin_waiting(ctx, qp);
  return done;
}

Outcome on_plain_read(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  if (packet.bth.psn != rx.expected || !rx.message.idle() || is_retransmitted(qp, packet)) [[unlikely]]
    return on_request(ctx, qp, packet);
  const bool read = packet.bth.opcode == Opcode::rc_read_request;
  if (!(read ? try_read(ctx, qp, packet) : try_atomic(ctx, qp, packet))) [[unlikely]]
    return on_request(ctx, qp, packet);
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  return Outcome::wake();
}

template <Steps kSteps>
Outcome on_plain_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const SendSlot* const answered = answered_by(qp, packet);
  if (answered == nullptr) return on_other_response(ctx, qp, packet);
  auto& tx = qp.tx;
  const SendSlot& slot = *answered;
  const auto result = result_of(slot, packet);
  const bool placed = !result.empty() && place_in_one(ctx, qp.pd, slot.sges()[0], 0, result);
  ctx.hand.take<kSteps>(qp);  // Until the result is there nothing changes.
  if (!placed) [[unlikely]]
    return on_other_response(ctx, qp, packet);
  const Psn psn = packet.bth.psn;
  if (distance(psn, tx.acked) > 0) tx.acked = psn;
  LossDetector& loss = tx.recovery->loss;
  // With several outstanding, a response waits behind others and its time is no round trip.
  if (tx.rd_atomic == 1) loss.sample_rtt(psn, tx.sent, ctx.now);
  Outcome out = Outcome::wake_if(tx.credits.update(packet.aeth));
  ++tx.una;
  loss.forget(psn, 1);
  if (slot.has(SendFlag::signaled) || qp.signal_all) {
    out |= complete_oldest(ctx, qp, WcStatus::success);
  } else {
    --tx.rd_atomic;
    ++tx.oldest;
  }
  if (more_is_known(qp)) out |= advance(ctx, qp).out;
  return out.failed() ? out : out | on_progress_inline(ctx, qp, psn);
}

template Outcome on_plain_response<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_response<Steps::marked>(Context&, Qp&, const wire::Packet&);

}  // namespace uroce::transport
