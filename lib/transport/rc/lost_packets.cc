#include "transport/rc/lost_packets.h"

#include <algorithm>

#include "transport/qp/work_queue.h"
#include "transport/rc/congestion.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

Outcome on_detected(const Context& ctx, Qp& qp) {
  qp.tx.lost.on_detected();
  report_loss(ctx, qp);
  return Outcome::wake();
}

/// Calls `mark(find)`, for LossDetector. Returns what follows if it marked any.
template <class Mark>
Outcome mark_requests(const Context& ctx, Qp& qp, Mark&& mark) {
  uint32_t index = qp.tx.oldest;
  const bool any = mark([&](Psn psn) -> std::optional<RequestSpan> {
    const SendSlot* slot = find_request(qp, psn, index);
    return slot != nullptr ? std::optional(slot->span()) : std::nullopt;
  });
  return any ? on_detected(ctx, qp) : Outcome{};
}

// Requests a READ's responses from `at` on, up to the next one that has arrived or that cannot have left the peer yet.
void ask_again(Context& ctx, Qp& qp, SendSlot& slot, Psn at) {
  const ResponseTracker& responses = qp.tx.recovery->responses;
  const Psn expected = responses.expected_end();
  const bool part = distance(expected, at) > 0 && distance(expected, slot.end_psn()) < 0;
  const Psn until = part ? expected : slot.end_psn();
  const uint32_t wanted = std::min(static_cast<uint32_t>(distance(until, at)), kMaxReadPackets);
  const auto first = static_cast<uint32_t>(distance(at, slot.first_psn));
  emit_read_request(ctx, qp, slot, first, responses.missing_from(at, wanted, qp.tx.una));
}

}  // namespace

Outcome mark_lost(Qp& qp, Psn psn, Cause cause) {
  qp.tx.lost.mark(qp.tx.recovery->loss, psn, cause);
  return Outcome::wake();
}

Outcome detect_lost_requests(const Context& ctx, Qp& qp) {
  const auto& tx = qp.tx;
  return mark_requests(ctx, qp, [&](auto&& find) {
    return tx.recovery->loss.detect_overtaken(tx.una, tx.acked, qp.selective, ctx.now, find);
  });
}

Outcome mark_unreported(const Context& ctx, Qp& qp) {
  const auto& tx = qp.tx;
  return mark_requests(ctx, qp,
                       [&](auto&& find) { return tx.recovery->loss.mark_unreported(tx.una, tx.acked, tx.sent, find); });
}

Outcome send_rest_again(const Context& ctx, Qp& qp, Psn from) {
  if (distance(qp.tx.sent, from) <= 0) return {};
  rewind_to(qp, from);
  report_loss(ctx, qp);
  return Outcome::wake();
}

Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end, uint32_t overtaken) {
  Recovery& r = *qp.tx.recovery;
  r.responses.expect_until(end);
  const bool any = r.responses.find_missing(r.loss, qp.tx.una, qp.selective, overtaken, ctx.now, StartedRequests(qp));
  return any ? on_detected(ctx, qp) : Outcome{};
}

Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end) {
  return detect_missing_responses(ctx, qp, end, qp.tx.recovery->loss.reordering(qp.selective));
}

Transmitted transmit_lost(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  LossDetector& loss = tx.recovery->loss;
  uint32_t index = tx.oldest;
  Psn at = tx.una;
  const Psn end = tx.una + std::min(static_cast<uint32_t>(distance(tx.sent, tx.una)), PsnSet::kSize);
  Outcome out;
  for (;;) {
    at += loss.next_lost(at, static_cast<uint32_t>(distance(end, at)));
    if (at == end) break;
    if (ctx.builder.full()) return {true, out};
    if (!may_send_data(ctx, qp)) return {false, out | Outcome::act(Outcome::kPacingTimer)};
    loss.take_lost(at);
    SendSlot* slot = find_request(qp, at, index);
    if (slot == nullptr || slot->status != WcStatus::success) continue;
    if (slot->is_atomic()) {
      emit_atomic(ctx, qp, *slot);
    } else if (slot->is_placement()) {
      emit_placement(ctx, qp, *slot);
    } else if (slot->is_read()) {
      ask_again(ctx, qp, *slot, at);
    } else {
      const auto packet = static_cast<uint32_t>(distance(at, slot->first_psn));
      if (emit_data(ctx, qp, *slot, segment_at(qp, *slot, packet), at, true)) continue;
      rewind_to(qp, at);  // The requester fails it there, in its turn.
      out |= Outcome::wake();
    }
  }
  tx.lost.on_all_sent();
  return {false, out};
}

}  // namespace uroce::transport
