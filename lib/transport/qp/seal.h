// The seals of a connection with a proven uroce peer (wire::Seal).
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

/// The peer is a proven uroce peer, whose epoch is known from now on.
inline void begin_selective(Qp& qp) {
  const PeerDiscovery& discovery = qp.tx.recovery->discovery;
  qp.selective = true;
  qp.seal = wire::Seal::of(discovery.epoch(), discovery.peer_epoch());
}
/// Has `packet` the seal of the proven peer?
inline bool is_sealed(const Qp& qp, const wire::Packet& packet) {
  const PeerDiscovery& discovery = qp.tx.recovery->discovery;
  return wire::Seal::of(packet.bth) == wire::Seal::of(discovery.peer_epoch(), discovery.epoch());
}

}  // namespace uroce::transport
