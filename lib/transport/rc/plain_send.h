// The responder's shortcut for plain SENDs (wire/plain_packet.h) into receives of one entry: the general way
// (rc/responder.h) without the branches that other requests need.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// As on_request(), for a plain SEND. The QP is in RTS, and not in hand yet. Not inlined: a WRITE needs fewer
/// registers.
template <Steps kSteps>
Outcome on_plain_send(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
