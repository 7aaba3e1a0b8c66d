// How devices identify themselves, and limits that the API does not have.
#pragma once

#include <endian.h>

#include <cstdint>

#include <uroce/types.h>

namespace uroce::dropin {

/// A locally administered OUI. Neither 0 nor 0xFFFFFF, which mean "rxe" to some, and no vendor's own.
inline constexpr uint32_t kVendorId = 0x027572;
inline constexpr uint32_t kPartId = 1;

/// Entries of the GID table, with room for addresses that come later. Empty entries read as zeros, as in the kernel.
inline constexpr uint32_t kGidTable = 16;
inline constexpr uint16_t kDefaultPkey = 0xffff;
/// Completions are stamped in nanoseconds.
inline constexpr uint64_t kClockKhz = 1'000'000;

/// EUI-64 from the MAC address: ff:fe in the middle, the universal/local bit inverted (RFC 4291, appendix A).
inline uint64_t guid_of(const EthAddr& mac) {
  const auto& b = mac.bytes;
  const uint8_t eui[8] = {static_cast<uint8_t>(b[0] ^ 2), b[1], b[2], 0xff, 0xfe, b[3], b[4], b[5]};
  uint64_t guid = 0;
  for (const uint8_t byte : eui) guid = guid << 8 | byte;
  return guid;
}

}  // namespace uroce::dropin
