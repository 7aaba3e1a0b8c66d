// The requester's side of READ responses and atomic ACKs (IBTA vol. 1, 9.7.5.1).
//
// Responses are placed in the order of their requests, because two READs may target the same memory. Within the oldest
// READ they are placed as they come.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_read_response(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_atomic_ack(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
