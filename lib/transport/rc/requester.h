// The requester: segments work requests into packets (IBTA vol. 1, 9.7.2 to 9.7.4, 9.7.7).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Fetches, segments and sends until the builder is full or the QP may send no more. The outcome wakes the QP when it
/// could send more.
Outcome transmit_requests(Context& ctx, Qp& qp);

}  // namespace uroce::transport
