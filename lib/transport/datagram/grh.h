// GRH placement: the 40 bytes in front of every datagram received (IBTA annex A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "wire/packet.h"

namespace uroce::transport {

inline constexpr std::size_t kGrhBytes = 40;
using Grh = std::array<std::byte, kGrhBytes>;

/// The IPv6 header, or the IPv4 header in the last 20 bytes.
inline Grh grh_of(const wire::Packet& packet) {
  constexpr std::size_t kIpv4Bytes = 20;
  Grh grh{};
  const std::size_t length = packet.ip_version == 4 ? kIpv4Bytes : kGrhBytes;
  std::memcpy(grh.data() + kGrhBytes - length, packet.frame + packet.l3_offset, length);
  return grh;
}

}  // namespace uroce::transport
