// Hands a packet that a queue pair takes to the part of the transport that handles it.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/rc/plain_write.h"

namespace uroce::transport {

/// `packet` was admitted for `qp` (admission.h), which is in hand.
template <Steps kSteps>
Outcome handle_packet(Context& ctx, Qp& qp, const wire::Packet& packet);

/// The part of handle_plain_packet() for all but WRITEs of one packet, which need fewer registers without it.
template <Steps kSteps>
Outcome handle_other_plain_packet(Context& ctx, Qp& qp, const wire::Packet& packet);
/// The same for a plain packet that takes_plain() has admitted. It takes the queue pair in hand.
template <Steps kSteps>
inline Outcome handle_plain_packet(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (packet.bth.opcode == wire::Opcode::rc_write_only) return on_plain_write<kSteps>(ctx, qp, packet);
  return handle_other_plain_packet<kSteps>(ctx, qp, packet);
}

}  // namespace uroce::transport
