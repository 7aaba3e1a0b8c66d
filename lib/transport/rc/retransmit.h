// Sends again exactly the packets that loss detection has marked.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends lost packets again, and requests missing responses again. `more`: the burst is full, and some remain.
Transmitted transmit_lost(Context& ctx, Qp& qp);

}  // namespace uroce::transport
