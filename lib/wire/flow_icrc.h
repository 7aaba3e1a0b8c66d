// The ICRC of packets that share their headers from IP to the BTH's second word, but for IPv4's id, as those of a flow
// do. It begins behind these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/header_bytes.h"

namespace uroce::wire {

class FlowIcrc {
 public:
  /// Bytes of the BTH that count as shared: all but the word with the PSN.
  static constexpr std::size_t kSharedOfBth = kBthBytes - 4;

  /// `l3`: a packet from its IP header on, at least to the end of the BTH. `ip_version`: 4, without options, or 6.
  void learn(const std::byte* l3, uint8_t ip_version);
  /// The register behind the shared headers (IcrcState::resume()). `id`: the packet's, 0 in IPv6.
  uint32_t at(uint16_t id) const { return register_ ^ kOfId[0][id >> 8] ^ kOfId[1][id & 0xff]; }

 private:
  /// The difference that each byte of an id makes: a CRC is linear.
  static const std::array<std::array<uint32_t, 256>, 2> kOfId;

  uint32_t register_ = 0;
};

}  // namespace uroce::wire
