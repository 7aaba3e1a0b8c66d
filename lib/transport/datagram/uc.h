// Unreliable connections: requests are sent once, and there are no acknowledgements (IBTA vol. 1, 9.8.2).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends the cursor's packet. False: a key or bound is wrong, and the slot's status says so.
bool send_uc_packet(Context& ctx, Qp& qp, SendSlot& slot);
Outcome on_uc_request(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
