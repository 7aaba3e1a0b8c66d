// Reports a queue pair's ACKs, losses and timeouts to its congestion control.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The peer has received `packets` more packets. `rtt`: of one of them; 0: not measured.
inline void report_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets);
void report_new_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets);  // the rare part of report_ack()
/// Packets were lost. Reported at most once per round trip.
void report_loss(const Context& ctx, Qp& qp);
/// Nothing has arrived from the peer for a whole timeout.
void report_timeout(const Context& ctx, Qp& qp);

inline void report_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets) {
  const Recovery& r = *qp.tx.recovery;
  // Packets that are lost or out of order widen the window.
  if (rtt >= r.heeded_rtt && !r.loss.marked() && !qp.paced) [[likely]]
    return;
  report_new_ack(ctx, qp, rtt, packets);
}

}  // namespace uroce::transport
