#include "transport/rc/lost_packets.h"

#include "transport/qp/work_queue.h"
#include "transport/rc/congestion_feedback.h"

namespace uroce::transport {
namespace {

Outcome mark_has_lost(const Context& ctx, Qp& qp) {
  qp.tx.has_lost = true;
  report_loss(ctx, qp);
  return Outcome::wake();
}

}  // namespace

Outcome mark_lost(Qp& qp, Psn psn, Cause cause) {
  qp.tx.recovery->loss.mark_lost(psn, cause);
  qp.tx.has_lost = true;
  return Outcome::wake();
}

Outcome detect_lost_requests(const Context& ctx, Qp& qp) {
  const auto& tx = qp.tx;
  uint32_t index = tx.oldest;
  const auto find = [&](Psn psn) -> std::optional<RequestSpan> {
    const SendSlot* slot = find_request(qp, psn, index);
    return slot != nullptr ? std::optional(slot->span()) : std::nullopt;
  };
  const bool any = tx.recovery->loss.detect_overtaken(tx.una, tx.acked, qp.selective, ctx.now, find);
  return any ? mark_has_lost(ctx, qp) : Outcome{};
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
  return any ? mark_has_lost(ctx, qp) : Outcome{};
}

Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end) {
  return detect_missing_responses(ctx, qp, end, qp.tx.recovery->loss.reordering(qp.selective));
}

}  // namespace uroce::transport
