// The requester's shortcut for plain datagrams: SENDs of one entry in memory to one queue pair.
//
// It is the general way (datagram/ud.h) without the branches that other requests need: the same checks, frames and
// state. Datagrams of one length to one destination share their headers within a turn.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends those at the head of the send queue. The first other request, or one that is wrong, stays in shared memory for
/// the general way. `qp` is a UD QP in RTS.
void transmit_plain_datagrams(Context& ctx, Qp& qp);

}  // namespace uroce::transport
