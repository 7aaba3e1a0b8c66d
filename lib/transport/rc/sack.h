// SACK frames (wire/recovery.h): an acknowledgement, a bitmap of the packets that have arrived beyond it, and an echo
// to measure the round trip.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "wire/recovery.h"

namespace uroce::transport {

/// Makes `packet` the request that the next SACK echoes. `duplicate`: it had arrived before.
void note_arrival(const Context& ctx, Qp& qp, const wire::Packet& packet, bool duplicate);
/// Sends the pending reply as a SACK.
void send_sack(Context& ctx, Qp& qp);
/// False: `packet` has no valid SACK, or one for another connection, or one that acknowledges packets never sent.
bool load_credible_sack(const Qp& qp, const wire::Packet& packet, wire::Sack& sack);

}  // namespace uroce::transport
