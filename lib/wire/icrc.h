// The invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 over the frame from the IP header on. Fields that routers may
// change count as ones. crc/kernel.h has the code for each CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc/kernel.h"

namespace uroce::wire {

/// A CRC in progress. Pass the headers to begin(), then the payload in order, then the rest of the frame to finish().
class IcrcState {
 public:
  /// `l3_to_headers`: IP header to the last extended header, contiguous, lengths already final.
  /// `ip_version` is 4 or 6. At least to the end of the BTH.
  static IcrcState begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version);
  void update(std::span<const std::byte> bytes);
  /// Copies `src` to `dst` (no overlap) and updates the CRC with the same bytes, each read once. The ICRC then fits
  /// the packet even if an application changes the source at the same time.
  void copy(std::byte* dst, std::span<const std::byte> src);
  /// The value to store little-endian after the pad.
  uint32_t value() const { return ~crc_; }
  /// Writes `pad` zeros and the ICRC at `at`. Returns the end of the frame.
  std::byte* finish(std::byte* at, std::size_t pad);

 private:
  explicit IcrcState(uint32_t crc) : crc_(crc) {}

  uint32_t crc_;
};

/// The ICRC of one contiguous packet, `l3_to_pad`: IP header to pad, at least to the end of the BTH.
uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version);

}  // namespace uroce::wire
