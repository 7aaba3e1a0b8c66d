// HELLO frames: peer discovery (loss/peer_discovery.h) applied to a queue pair.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/peer_discovery.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_hello(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_hello_timer(Qp& qp);
Outcome send_hello(Context& ctx, Qp& qp);
/// The peer has proven that it is a uroce peer: recovery is selective from now on.
Outcome trust_peer(Context& ctx, Qp& qp, const Proof& proof);
/// The peer no longer behaves like a uroce peer: Go-Back-N, and discovery starts again.
Outcome distrust_peer(Context& ctx, Qp& qp);
/// The peer keeps packets that this side never sent: it is to drop all that it keeps.
Outcome renew_epoch(Context& ctx, Qp& qp);

}  // namespace uroce::transport
