// Frames from a connected queue pair to its peer.
#pragma once

#include "transport/core/context.h"
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

/// The headers of a turn's packets to the peer. Packets of one opcode and length share them.
class PeerHeaders {
 public:
  PeerHeaders(Context& ctx, const Qp& qp)
      : builder_(ctx.builder), qp_(qp), shared_(ctx.turn_headers), same_path_(!qp.selective || !ctx.builder.sprays()) {
    shared_.clear();
  }

  /// Writes those of `frame`, which has its payload. Returns where `extended` bytes of extended headers go. They, and
  /// the ECN bits of `flags`, follow from the opcode. `more`: another one like it is likely to follow in this turn.
  [[gnu::always_inline]] std::byte* write(TxFrame& frame, wire::Opcode opcode, Psn psn, std::size_t extended,
                                          BthFlags flags, bool more) {
    const uint32_t length = frame.payload_length;
    if (!shared_.is_for(opcode, length)) [[unlikely]] {
      flags.seal = qp_.seal;
      if (!more || !same_path_) {
        FrameBuilder::write_headers(frame, peer_of(builder_, qp_, psn), opcode, psn, extended, flags);
        return FrameBuilder::extended_headers(frame, *qp_.route);
      }
      shared_.make(peer_of(builder_, qp_, psn), opcode, extended, length, {.ecn = flags.ecn, .seal = flags.seal});
    }
    return shared_.write(frame, psn, flags.ack_request);
  }

 private:
  FrameBuilder& builder_;
  const Qp& qp_;
  FrameTemplate& shared_;
  bool same_path_;
};

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
