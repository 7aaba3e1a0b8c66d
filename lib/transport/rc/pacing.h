// Pacing: a queue pair with a rate spaces its data packets in time.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

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

}  // namespace uroce::transport
