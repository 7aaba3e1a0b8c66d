// Pacing: a queue pair with a rate sends its data packets one after another, not at once.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Out of line: may a data packet of a paced QP leave now?
bool may_send_paced(const Context& ctx, Qp& qp);
/// May a data packet, of a request or a READ response, leave now? If not, the QP waits for Pacer::next_send()
/// (Outcome::kPacingTimer).
inline bool may_send_data(const Context& ctx, Qp& qp) { return !qp.paced || may_send_paced(ctx, qp); }

void charge_paced(const Context& ctx, Qp& qp, const TxFrame& frame);
/// A data packet has left.
inline void charge_data(const Context& ctx, Qp& qp, const TxFrame& frame) {
  if (qp.paced) charge_paced(ctx, qp, frame);
}
/// Does the packet that the peer must answer next wait for its turn? Then silence means nothing.
bool awaits_turn(const Qp& qp);

}  // namespace uroce::transport
