// The requester's side of READ responses and atomic ACKs (IBTA vol. 1, 9.7.5.1).
//
// Later responses are buffered, because two READs may target the same memory and must be placed in order. Responses to
// the oldest READ are placed as they arrive.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_read_response(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_atomic_ack(Context& ctx, Qp& qp, const wire::Packet& packet);

/// For shortcuts: the oldest request, where the response `psn` is the next one for it, no other one is missing or kept,
/// and its request packets were sent once; nullptr otherwise.
inline const SendSlot* awaiting(const Qp& qp, Psn psn) {
  const auto& tx = qp.tx;
  if (psn != tx.una || distance(psn, tx.sent) >= 0 || tx.oldest == tx.sq.next()) return nullptr;
  const SendSlot& slot = qp.slot(tx.oldest);
  const Recovery& r = *tx.recovery;
  const bool alone = r.responses.nothing_beyond(psn) && r.responses_ahead.empty();
  return slot.started && slot.has_response() && !slot.asked_again && alone ? &slot : nullptr;
}

}  // namespace uroce::transport
