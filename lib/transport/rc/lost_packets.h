// Applies the results of loss detection (loss/loss_detector.h, loss/response_tracker.h) to a queue pair, and sends
// again exactly the packets that it has marked.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/loss_detector.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The packet with `psn` must be sent again, or the response requested again.
Outcome mark_lost(Qp& qp, Psn psn, Cause cause);
/// Marks request packets as lost that too many others have overtaken.
Outcome detect_lost_requests(const Context& ctx, Qp& qp);
/// LossDetector::shows_rest_lost() of a SACK that has been recorded: marks all requests as lost that have not arrived.
Outcome mark_unreported(const Context& ctx, Qp& qp);
/// The peer lacks all requests from `from` on: they are sent once more, in order.
Outcome send_rest_again(const Context& ctx, Qp& qp, Psn from);
/// Responses before `end` have left the peer. Marks those as lost that have not arrived and that at least `overtaken`
/// later ones have passed; without that number, more than reordering explains.
Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end, uint32_t overtaken);
Outcome detect_missing_responses(const Context& ctx, Qp& qp, Psn end);
/// Sends lost packets again, and requests missing responses again. `more`: the burst is full, and some remain.
Transmitted transmit_lost(Context& ctx, Qp& qp);

}  // namespace uroce::transport
