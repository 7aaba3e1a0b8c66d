// Requests of a uroce peer that arrive ahead of their turn: they are kept, reported in a SACK, and executed in their
// turn.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Keeps a request that is ahead of its turn, and queues a SACK.
Outcome buffer_request(Context& ctx, Qp& qp, const wire::Packet& packet);
/// Executes the buffered requests that follow the one at `closed`, which has closed a gap.
Outcome execute_buffered(Context& ctx, Qp& qp, Psn closed);

}  // namespace uroce::transport
