// The rights of a user to see clients, objects, keys and PSNs.
#pragma once

#include <cstdint>

#include "service/peer.h"

namespace uroce::service {

class Sight {
 public:
  explicit Sight(const Peer& peer) : uid_(peer.uid), payer_(peer.payer()), everything_(peer.privileged) {}
  /// The daemon itself sees everything.
  static Sight of_everything() { return {}; }

  /// Privileged peers: all clients, keys, PSNs, and the frames of captures.
  bool everything() const { return everything_; }
  /// A client of user `owner`, and its objects. A key or a PSN is enough to forge a frame that writes memory or ends a
  /// connection, so users do not even see those of their own objects.
  bool client_of(uint32_t owner) const { return everything_ || owner == uid_; }
  /// The budget of user `uid`.
  bool budget_of(uint32_t uid) const { return everything_ || uid == payer_; }

 private:
  Sight() = default;

  uint32_t uid_ = 0;
  uint32_t payer_ = 0;
  bool everything_ = true;
};

}  // namespace uroce::service
