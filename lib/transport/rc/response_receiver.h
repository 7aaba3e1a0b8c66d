// The requester's side of READ responses and atomic ACKs (IBTA vol. 1, 9.7.5.1).
//
// Later responses are buffered, because two READs may target the same memory and must be placed in order. Responses to
// the oldest READ are placed as they arrive.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_read_response(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_atomic_ack(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
