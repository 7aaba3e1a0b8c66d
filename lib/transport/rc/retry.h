// One retry of a requester with Go-Back-N.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Spends a retry and sends everything from `psn` on again. The QP fails when no retry is left.
Outcome retry_from(const Context& ctx, Qp& qp, Psn psn);

}  // namespace uroce::transport
