// The end of a requester's timer: the ACK timeout, the probe timer, or an RNR wait (IBTA vol. 1, 9.7.6.1.3).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The wheel's timer has fired; the QP's deadline may be later.
Outcome on_ack_timer(Context& ctx, Qp& qp);
/// Spends a retry and sends everything from `psn` on again. The QP fails when no retry is left.
Outcome retry_from(const Context& ctx, Qp& qp, Psn psn);

}  // namespace uroce::transport
