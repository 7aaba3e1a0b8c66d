// The peers that a device takes: a firewall for packets that do not pass the kernel's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <uroce/types.h>

namespace uroce {

/// Addresses that agree in their first `bits`, of one family: 0..32 of IPv4, 0..128 of IPv6.
struct Prefix {
  Gid address{};
  uint8_t bits = 0;

  bool covers(const Gid& gid) const {
    if (gid.is_ipv4() != address.is_ipv4()) return false;
    const unsigned first = gid.is_ipv4() ? 96 : 0;  // an IPv4 address is the end of its GID
    const unsigned end = first + bits;
    for (unsigned byte = first / 8; byte * 8 < end; ++byte) {
      const unsigned rest = std::min(end - byte * 8, 8u);
      if (((gid.bytes[byte] ^ address.bytes[byte]) >> (8 - rest)) != 0) return false;
    }
    return true;
  }
};

class PeerList {
 public:
  /// An empty list takes all peers.
  explicit PeerList(std::vector<Prefix> prefixes = {}) : prefixes_(std::move(prefixes)) {}

  const std::vector<Prefix>& prefixes() const { return prefixes_; }
  bool takes_all() const { return prefixes_.empty(); }
  bool takes(const Gid& peer) const {
    return takes_all() || std::ranges::any_of(prefixes_, [&](const Prefix& one) { return one.covers(peer); });
  }

 private:
  std::vector<Prefix> prefixes_;
};

}  // namespace uroce
