// The requester's shortcut for plain requests: WRITEs without immediate data, of one packet and one entry in memory,
// without fence and inline data.
//
// It is the general way (rc/requester.h) without the branches that other requests need: the same checks, frames and
// state.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends plain requests from the send queue, in order, while room, window and peer allow it. It stops before the first
/// work request that is not plain, or is wrong in any way, and leaves it as it is; then the general way goes on.
Outcome transmit_plain_requests(Context& ctx, Qp& qp);

}  // namespace uroce::transport
