// The rate of a queue pair: what its congestion control is told, how its data packets are spaced in time, and
// congestion notification packets, both ways (IBTA annex A17.9).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

// --- Feedback: the QP's ACKs, losses and timeouts -------------------------------------------------------------

/// Has an acknowledgement with this round trip to be reported?
inline bool heeds_ack(const Qp& qp, Nanos rtt);
/// The peer has received `packets` more packets. `rtt`: of one of them; 0: not measured.
Outcome report_ack(Context& ctx, Qp& qp, Nanos rtt, uint32_t packets);
/// Packets were lost. Reported at most once per round trip.
void report_loss(const Context& ctx, Qp& qp);
/// Nothing has arrived from the peer for a whole timeout.
void report_timeout(const Context& ctx, Qp& qp);

inline bool heeds_ack(const Qp& qp, Nanos rtt) {
  const Recovery& r = *qp.tx.recovery;
  // Packets that are lost or out of order widen the window.
  return rtt < r.heeded_rtt || r.loss.marked() || qp.paced;
}

// --- Pacing: a QP with a rate spaces its data packets in time -----------------------------------------------------

/// May a data packet of a paced QP leave now?
bool may_send_paced(const Context& ctx, Qp& qp);
/// May a data packet, of a request or a READ response, leave now? If not, the QP waits for Pacer::next_send()
/// (Outcome::kPacingTimer).
inline bool may_send_data(const Context& ctx, Qp& qp) { return !qp.paced || may_send_paced(ctx, qp); }

void charge_paced(const Context& ctx, Qp& qp, const TxFrame& frame);
/// Charges a data packet that has left.
inline void charge_data(const Context& ctx, Qp& qp, const TxFrame& frame) {
  if (qp.paced) charge_paced(ctx, qp, frame);
}
/// Does pacing delay the packet whose acknowledgement the QP waits for? Then a timeout is not the peer's fault.
bool awaits_turn(const Qp& qp);

// --- Congestion notification packets ------------------------------------------------------------------------------

/// A marked data packet has arrived: a CNP may be due.
Outcome on_mark(Context& ctx, Qp& qp);
/// A CNP has arrived: this side slows down.
Outcome on_cnp(Context& ctx, Qp& qp, const wire::Packet& packet);
void send_cnp(Context& ctx, Qp& qp);

}  // namespace uroce::transport
