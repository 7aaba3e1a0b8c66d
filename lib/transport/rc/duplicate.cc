#include "transport/rc/duplicate.h"

#include "transport/rc/replay.h"
#include "transport/rc/reply.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

// The PSN for the ACK of a duplicate SEND or WRITE at `psn`. The ACK covers everything executed (C9-105), but stops
// before the next READ, atomic, FLUSH or ATOMIC WRITE, because its response may be lost. Linux rxe takes an ACK with a
// READ's PSN for the response, and completes the READ without its data.
Psn acknowledged_with(const Qp& qp, Psn psn) {
  Psn newest = qp.rx.expected - 1;
  for (const Resource& resource : qp.cold->replay.resources()) {
    const bool between = distance(resource.first_psn, psn) > 0 && distance(newest, resource.first_psn) >= 0;
    if (resource.packets != 0 && between) newest = resource.first_psn - 1;
  }
  return newest;
}

}  // namespace

Outcome on_duplicate(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.count_drop(wire::Drop::psn_duplicate);
  Outcome out;
  if (is_answered(packet)) {
    out = replay_response(ctx, qp, packet);
    if (!is_retransmitted(qp, packet)) return out;
  }
  return out | queue_ack(qp, acknowledged_with(qp, packet.bth.psn));
}

}  // namespace uroce::transport
