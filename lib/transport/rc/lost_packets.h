// Applying what loss detection finds (loss/loss_detector.h, loss/response_tracker.h) to a queue pair.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/retransmission_cause.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `psn` is to be sent, or asked for, again.
Outcome mark_lost(Qp& qp, Psn psn, Cause cause);
/// Requests that too many others have overtaken are lost.
Outcome detect_lost_requests(const Context& ctx, Qp& qp);
/// Responses before `end` have left the peer: those that have not arrived are asked for again, in time.
Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end);

}  // namespace uroce::transport
