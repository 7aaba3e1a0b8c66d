// Executing one request whose turn it is: SEND, WRITE, READ, atomic (IBTA vol. 1, 9.7.4, 9.7.5, 9.8), FLUSH or
// ATOMIC WRITE (annex A19).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `packet` has the PSN that is expected. Its ACK or NAK, or its response, is queued.
Outcome execute_request(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
