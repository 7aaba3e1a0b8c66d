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

/// The headers of packets to the peer. Packets of one opcode and length share them, in later turns too while no other
/// QP has one.
class PeerHeaders {
 public:
  PeerHeaders(Context& ctx, const Qp& qp, FrameTemplate& shared) : builder_(ctx.builder), qp_(qp), shared_(shared) {
    // Packets change these; with all else Context::forget_headers() is called.
    shared_.begin(&qp, uint32_t{qp.udp_source} << 16 | uint32_t{qp.seal.upper} << 8 | qp.seal.lower);
  }

  /// Writes those of `frame`, which has its payload. Returns where `extended` bytes of extended headers go. They, and
  /// the ECN bits of `flags`, follow from the opcode. `more`: another one like it is likely to follow in this turn.
  [[gnu::always_inline]] std::byte* write(TxFrame& frame, wire::Opcode opcode, Psn psn, std::size_t extended,
                                          BthFlags flags, bool more) {
    if (!shared_.is_for(opcode, frame.payload_length)) [[unlikely]]
      return write_new(frame, opcode, psn, extended, flags, more);
    return shared_.write(frame, psn, flags.ack_request);
  }

 private:
  // Not inlined: the compiler would compute its arguments for every packet.
  [[gnu::noinline]] std::byte* write_new(TxFrame& frame, wire::Opcode opcode, Psn psn, std::size_t extended,
                                         BthFlags flags, bool more) {
    flags.seal = qp_.seal;
    const bool same_path = !qp_.selective || !builder_.sprays();
    if (!same_path || !(more || shared_.comes_again(opcode, frame.payload_length))) {
      FrameBuilder::write_headers(frame, peer_of(builder_, qp_, psn), opcode, psn, extended, flags);
      return FrameBuilder::extended_headers(frame, *qp_.route);
    }
    shared_.make(peer_of(builder_, qp_, psn), opcode, extended, frame.payload_length,
                 {.ecn = flags.ecn, .seal = flags.seal});
    return shared_.write(frame, psn, flags.ack_request);
  }

  FrameBuilder& builder_;
  const Qp& qp_;
  FrameTemplate& shared_;
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
inline void store_aeth(std::byte* at, Qp& qp, uint8_t syndrome, uint32_t msn) {
  wire::Aeth{wire::Aeth{syndrome, 0}.is_ack() ? wire::Aeth::ack(credits_now(qp)) : syndrome, msn}.store(at);
}

}  // namespace uroce::transport
