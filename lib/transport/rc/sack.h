// SACK frames (wire/recovery.h): an acknowledgement with what has arrived beyond it, and an echo to measure time by.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "wire/recovery.h"

namespace uroce::transport {

/// Remembers what the next SACK echoes. `duplicate`: the request had arrived before.
void note_arrival(const Context& ctx, Qp& qp, const wire::Packet& packet, bool duplicate);
/// Sends the pending reply as a SACK.
void send_sack(Context& ctx, Qp& qp);
/// False: `packet` holds no SACK, or one for another connection, or one that says more than was sent.
bool load_credible_sack(const Qp& qp, const wire::Packet& packet, wire::Sack& sack);

}  // namespace uroce::transport
