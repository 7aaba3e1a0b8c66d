// Applies the results of loss detection (loss/loss_detector.h, loss/response_tracker.h) to a queue pair.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/retransmission_cause.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The packet with `psn` must be sent again, or the response requested again.
Outcome mark_lost(Qp& qp, Psn psn, Cause cause);
/// Marks request packets as lost that too many others have overtaken.
Outcome detect_lost_requests(const Context& ctx, Qp& qp);
/// Responses before `end` have left the peer. Marks those as lost that have not arrived and that later ones have
/// overtaken.
Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end);

}  // namespace uroce::transport
