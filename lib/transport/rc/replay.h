// Atomic and READ replay: a duplicate is answered from what was stored, never executed again
// (IBTA vol. 1, 9.7.5.1.2 and table 46).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Answers a duplicate READ or atomic again. One whose result is gone is counted and dropped.
Outcome replay_response(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
