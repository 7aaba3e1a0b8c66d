// Unreliable datagrams: one packet each, to the destination that the work request names (IBTA vol. 1, 9.8.3).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends the cursor's datagram. False: the slot's status says why not.
bool send_datagram(Context& ctx, Qp& qp, SendSlot& slot);
Outcome on_datagram(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
