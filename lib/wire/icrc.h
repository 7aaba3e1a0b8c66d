// The invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 over the frame from IP on, with the fields that routers may
// change taken as ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// A CRC in progress. Feed the headers with begin(), then payload and pad in order.
class IcrcState {
 public:
  /// `l3_to_headers`: IP header to the last extended header, contiguous, lengths already final.
  /// `ip_version` is 4 or 6. At most 40 + 8 + 12 + 28 bytes.
  static IcrcState begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version);
  void update(std::span<const std::byte> bytes);
  /// Copies `src` to `dst` (no overlap) and feeds it, one pass over warm data. What is fed is the copy, so that a
  /// source which changes meanwhile still yields a packet whose ICRC is right.
  void copy(std::byte* dst, std::span<const std::byte> src);
  /// The value to store little-endian after the pad.
  uint32_t value() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

/// The ICRC of one contiguous packet, `l3_to_pad`: IP header to pad, at least to the end of the BTH.
uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version);

}  // namespace uroce::wire
