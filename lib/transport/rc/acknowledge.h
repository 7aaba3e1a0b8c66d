// ACKs and NAKs at the requester, plain and selective (IBTA vol. 1, 9.7.5).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_ack(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_sack(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
