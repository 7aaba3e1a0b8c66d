// The key of "Verifying the RSS Hash Calculation", Microsoft, and addresses as that page writes them.
#pragma once

#include <array>
#include <cstdint>

#include <uroce/flow.h>
#include <uroce/types.h>

namespace uroce::wire {

inline constexpr std::array<uint8_t, RxHash::kKeyBytes> kRssKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

inline Gid ip4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return Gid::from_ipv4(a << 24 | b << 16 | c << 8 | d);
}
inline Gid ip6(std::array<uint16_t, 8> words) {
  Gid gid;
  for (std::size_t i = 0; i < 8; ++i) {
    gid.bytes[2 * i] = static_cast<uint8_t>(words[i] >> 8);
    gid.bytes[2 * i + 1] = static_cast<uint8_t>(words[i]);
  }
  return gid;
}

}  // namespace uroce::wire
