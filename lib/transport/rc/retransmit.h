// Sending again exactly what loss detection has marked.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends lost packets, or asks for missing responses, again. `more`: the burst is full, and there are others.
Transmitted transmit_lost(Context& ctx, Qp& qp);

}  // namespace uroce::transport
