// Atomic and READ replay: a duplicate gets the stored result, and is never executed again (IBTA vol. 1, 9.7.5.1.2).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Queues the response to a duplicate READ or atomic. A duplicate whose result is gone is counted and dropped.
Outcome replay_response(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
