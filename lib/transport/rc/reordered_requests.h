// Requests that arrive ahead of their turn from a uroce peer: kept, told to the peer, and executed in their turn.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Keeps a request that is ahead of its turn. A SACK tells the peer.
Outcome buffer_request(Context& ctx, Qp& qp, const wire::Packet& packet);
/// Executes what follows the request at `closed`, which has closed a gap.
Outcome execute_buffered(Context& ctx, Qp& qp, Psn closed);

}  // namespace uroce::transport
