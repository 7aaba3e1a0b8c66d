// One retry of a requester.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Spends a retry and sends everything from `psn` on again. Without a retry left, the QP fails.
Outcome retry_from(const Context& ctx, Qp& qp, Psn psn);

}  // namespace uroce::transport
