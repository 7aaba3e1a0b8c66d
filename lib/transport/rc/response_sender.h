// The responder's answers, in the order of their requests: READ responses, atomic ACKs, then the newest ACK or NAK
// (IBTA vol. 1, 9.7.5.1).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Segments READ responses into packets, and sends what waits. `more`: the burst is full, and answers remain.
Transmitted transmit_responses(Context& ctx, Qp& qp);

}  // namespace uroce::transport
