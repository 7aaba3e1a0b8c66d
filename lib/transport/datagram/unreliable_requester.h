// The requester of UC, UD and raw packets: a request completes once the sink has taken its frames.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// One turn of such a queue pair in a burst. The outcome wakes the QP when it could send more.
Outcome transmit_unreliable(Context& ctx, Qp& qp);
/// The sink has taken what was sent: the work requests are complete.
Outcome complete_sent(Context& ctx, Qp& qp);

}  // namespace uroce::transport
