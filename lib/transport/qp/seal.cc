#include "transport/qp/seal.h"

namespace uroce::transport {

void begin_selective(Qp& qp) {
  const PeerDiscovery& discovery = qp.tx.recovery->discovery;
  qp.selective = true;
  qp.seal = wire::Seal::of(discovery.epoch(), discovery.peer_epoch());
}

bool is_sealed(const Qp& qp, const wire::Packet& packet) {
  const PeerDiscovery& discovery = qp.tx.recovery->discovery;
  return wire::Seal::of(packet.bth) == wire::Seal::of(discovery.peer_epoch(), discovery.epoch());
}

}  // namespace uroce::transport
