// GRH placement: the 40 bytes in front of every datagram received (IBTA annex A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "wire/packet.h"

namespace uroce::transport {

inline constexpr std::size_t kGrhBytes = 40;
using Grh = std::array<std::byte, kGrhBytes>;

/// Writes the IPv6 header, or the IPv4 header in the last 20 bytes.
inline void write_grh(std::byte* to, const wire::Packet& packet) {
  constexpr std::size_t kIpv4Bytes = 20;
  const std::byte* const ip = packet.frame + packet.l3_offset;
  if (packet.ip_version != 4) {
    std::memcpy(to, ip, kGrhBytes);
    return;
  }
  std::memset(to, 0, kGrhBytes - kIpv4Bytes);
  std::memcpy(to + kGrhBytes - kIpv4Bytes, ip, kIpv4Bytes);
}
inline Grh grh_of(const wire::Packet& packet) {
  Grh grh;
  write_grh(grh.data(), packet);
  return grh;
}

}  // namespace uroce::transport
