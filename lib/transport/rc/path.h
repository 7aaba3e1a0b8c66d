// The path of a queue pair's packets. Switches choose it by a hash of addresses and UDP ports, so another source port
// is likely to mean another path (PLB, congestion/congested_rounds.h). A queue pair whose program chose a flow label
// keeps its path.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Congestion was reported, or packets have arrived. Leaves a path that was congested for long, at once or later.
/// RC with congestion control only.
Outcome leave_congested_path(Context& ctx, Qp& qp);
/// Nothing comes back from a uroce peer, though it was asked twice; or nothing gets there. Does nothing soon after the
/// last time.
Outcome leave_dead_path(Context& ctx, Qp& qp);
/// The peer asks for this port in its HELLO.
void take_port(Context& ctx, Qp& qp, uint16_t port);

}  // namespace uroce::transport
