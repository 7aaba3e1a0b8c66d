// What congestion control is told of a queue pair's packets.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `packets` more have arrived at the peer. `rtt`: of one of them; 0: not measured.
void report_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets);
/// Packets were lost. Counts at most once per round trip.
void report_loss(const Context& ctx, Qp& qp);
/// Nothing was heard for a whole timeout.
void report_timeout(const Context& ctx, Qp& qp);

}  // namespace uroce::transport
