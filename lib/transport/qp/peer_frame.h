// Frames from a connected queue pair to its peer.
#pragma once

#include "transport/core/frame_builder.h"
#include "transport/qp/qp.h"
#include "transport/qp/receive_queue.h"

namespace uroce::transport {

/// The QP's peer as a destination. A uroce peer keeps packets that arrive out of order, so its packets may be sprayed
/// over several paths.
inline FrameBuilder::Destination peer_of(const FrameBuilder& builder, const Qp& qp, Psn psn) {
  const uint16_t spray = qp.selective ? builder.spray(psn) : uint16_t{0};
  return {*qp.route, qp.dest_qpn, static_cast<uint16_t>(qp.udp_source ^ spray), qp.pkey, qp.loopback};
}

/// The opcode for an operation of RC on this reliable QP.
inline wire::Opcode opcode_of(const Qp& qp, wire::Opcode rc) {
  if (qp.type != QpType::rc) [[unlikely]]
    return wire::as(wire::Transport::xrc, rc);
  return rc;
}

inline void finish_to_peer(FrameBuilder& builder, TxFrame& frame, const Qp& qp, wire::Opcode opcode, Psn psn,
                           std::size_t extended, BthFlags flags = {}) {
  flags.seal = qp.seal;
  builder.finish(frame, peer_of(builder, qp, psn), opcode, psn, extended, flags);
}

/// Stores an AETH. An ACK gets the present credits; NAKs and RNR NAKs are stored as they are.
inline void store_aeth(std::byte* at, const Qp& qp, uint8_t syndrome, uint32_t msn) {
  const bool ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
  wire::Aeth{ack ? wire::Aeth::ack(credits_now(qp)) : syndrome, msn}.store(at);
}

}  // namespace uroce::transport
