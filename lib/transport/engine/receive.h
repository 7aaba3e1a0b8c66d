// Hands a packet that a queue pair takes to the part of the transport that handles it.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `packet` was admitted for `qp` (admission.h).
Outcome handle_packet(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
