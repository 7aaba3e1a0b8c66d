#include "transport/rc/response_receiver.h"

#include "transport/core/guess.h"
#include "transport/qp/seal.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/completer.h"
#include "transport/rc/lost_packets.h"
#include "transport/rc/response_placement.h"

namespace uroce::transport {
namespace {

// The request that a response belongs to; nullptr: the response is dropped.
struct Match {
  SendSlot* slot = nullptr;
  Outcome out;
};

// Finds the request of a response. The requests before that one have been executed, or there would be no response. A
// response that belongs to none is counted and dropped. An atomic ACK answers an atomic, a READ response the others.
Match match_request(Context& ctx, Qp& qp, const wire::Packet& packet, bool atomic) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < 0) {
    ctx.count_drop(wire::Drop::response_stale);
    count_if_psn_is_guessed(ctx, packet, tx.una);
    return {};
  }
  uint32_t index = tx.oldest;
  SendSlot* slot = find_request(qp, psn, index);
  if (slot == nullptr || !(atomic ? slot->is_atomic() : slot->is_read() || slot->is_placement())) {
    ctx.count_drop(wire::Drop::response_unexpected);
    // An unexpected response still shows that everything before it has been executed.
    return {nullptr, slot != nullptr ? acknowledge_until(ctx, qp, psn) : Outcome{}};
  }
  Outcome out = acknowledge_until(ctx, qp, slot->first_psn);
  if (out.failed()) return {nullptr, out};
  if (distance(psn, tx.una) >= static_cast<int32_t>(PsnSet::kSize)) {
    ctx.count_drop(wire::Drop::psn_out_of_order);
    return {nullptr, out | detect_missing_responses(ctx, qp, psn)};
  }
  if (!tx.recovery->responses.has(psn)) return {slot, out};
  ctx.count_drop(wire::Drop::response_stale);
  return {nullptr, out};
}

// Buffers a response whose request is not the oldest. False: there is no room.
bool buffer_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const FrameHolder holder{qp.cold->user, packet.source()};
  if (!qp.tx.recovery->responses_ahead.keep(ctx.frames, holder, packet.bth.psn, qp.tx.una,
                                            wire::in_one_piece(packet, ctx.parked))) {
    ctx.count_drop(wire::Drop::parking_full);
    return false;
  }
  ctx.counters.parked_packets.add();
  return true;
}

// A response that is not the next one. Without the seal it leaves no trace, as a request ahead of its turn.
Outcome on_early_response(Context& ctx, Qp& qp, const SendSlot& slot, const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  if (qp.selective && !is_sealed(qp, packet)) {
    ctx.count_drop(wire::Drop::seal);
    return {};
  }
  if (&slot == &qp.slot(qp.tx.oldest)) {
    const WcStatus placed = place_response(ctx, qp, slot, packet);
    if (placed != WcStatus::success) return Outcome::fail(Failure::requester, placed);
  } else if (!buffer_response(ctx, qp, packet)) {
    return detect_missing_responses(ctx, qp, psn);
  }
  qp.tx.recovery->responses.add(psn);
  return detect_missing_responses(ctx, qp, psn + 1);
}

// The response whose turn it is.
Outcome on_next_response(Context& ctx, Qp& qp, SendSlot& slot, const wire::Packet& packet) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  Recovery& r = *tx.recovery;
  if (!slot.asked_again) r.loss.on_late(psn, r.responses.expected_end());
  const WcStatus placed = place_response(ctx, qp, slot, packet);
  if (placed != WcStatus::success) return Outcome::fail(Failure::requester, placed);
  ++tx.una;
  r.loss.forget(psn, 1);
  r.responses.forget(psn, 1);
  Outcome out;
  if (tx.una == slot.end_psn()) out |= complete_oldest(ctx, qp, WcStatus::success);
  out |= advance(ctx, qp).out;
  if (out.failed()) return out;
  out |= on_progress(ctx, qp, psn);
  // More responses may be missing, with later ones here already.
  const Psn end = r.responses.expected_end();
  return distance(end, tx.una) > 0 ? out | detect_missing_responses(ctx, qp, end) : out;
}

Outcome on_response(Context& ctx, Qp& qp, const wire::Packet& packet, bool atomic) {
  const Match match = match_request(ctx, qp, packet, atomic);
  if (match.slot == nullptr) return match.out;
  auto& tx = qp.tx;
  SendSlot& slot = *match.slot;
  const Psn psn = packet.bth.psn;
  // With several READs outstanding, a response waits behind others and its time is no round trip.
  if (psn == slot.first_psn && tx.rd_atomic == 1) tx.recovery->loss.sample_rtt(psn, tx.sent, ctx.now);
  Outcome out = match.out;
  if (packet.op().flags.has(wire::Op::aeth)) out |= Outcome::wake_if(tx.credits.update(packet.aeth));
  if (psn != tx.una) return out | on_early_response(ctx, qp, slot, packet);
  return out | on_next_response(ctx, qp, slot, packet);
}

}  // namespace

Outcome on_read_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  return on_response(ctx, qp, packet, false);
}

Outcome on_atomic_ack(Context& ctx, Qp& qp, const wire::Packet& packet) { return on_response(ctx, qp, packet, true); }

}  // namespace uroce::transport
