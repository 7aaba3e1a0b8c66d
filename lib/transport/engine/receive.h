// Hands a packet that a queue pair takes to the part of the transport that handles it.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/rc/acknowledge.h"
#include "transport/rc/plain_send.h"
#include "transport/rc/plain_write.h"

namespace uroce::transport {

/// `packet` was admitted for `qp` (admission.h).
Outcome handle_packet(Context& ctx, Qp& qp, const wire::Packet& packet);

/// The same for a plain packet that takes_plain() has admitted.
inline Outcome handle_plain_packet(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (packet.bth.opcode == wire::Opcode::rc_ack) return on_ack(ctx, qp, packet);
  const bool send = packet.bth.opcode == wire::Opcode::rc_send_only;
  return send ? on_plain_send(ctx, qp, packet) : on_plain_write(ctx, qp, packet);
}

}  // namespace uroce::transport
