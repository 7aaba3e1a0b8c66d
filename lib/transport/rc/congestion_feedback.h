// Reports a queue pair's ACKs, losses and timeouts to its congestion control.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The peer has received `packets` more packets. `rtt`: of one of them; 0: not measured.
void report_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets);
/// Packets were lost. Reported at most once per round trip.
void report_loss(const Context& ctx, Qp& qp);
/// Nothing has arrived from the peer for a whole timeout.
void report_timeout(const Context& ctx, Qp& qp);

}  // namespace uroce::transport
