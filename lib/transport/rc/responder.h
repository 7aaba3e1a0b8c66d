// The responder: takes each request by its PSN (IBTA vol. 1, 9.7.4.1.2). It executes the next one, answers duplicates
// again, and keeps what is ahead of its turn.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_request(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
