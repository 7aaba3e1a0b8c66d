// The invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 over the frame from the IP header on. Fields that routers may
// change count as ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// A CRC in progress. Pass the headers to begin(), then payload and pad in order. Small pieces are gathered in a
/// buffer, so that a small packet costs one run of the CRC, whatever the number of its pieces.
class IcrcState {
 public:
  /// `l3_to_headers`: IP header to the last extended header, contiguous, lengths already final.
  /// `ip_version` is 4 or 6. At least to the end of the BTH, at most 40 + 8 + 12 + 28 bytes.
  static IcrcState begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version);
  void update(std::span<const std::byte> bytes);
  /// Copies `src` to `dst` (no overlap) and updates the CRC from the copy, while it is in the cache. The ICRC then fits
  /// the packet even if an application changes the source at the same time.
  void copy(std::byte* dst, std::span<const std::byte> src);
  /// The value to store little-endian after the pad.
  uint32_t value() const;

 private:
  IcrcState() {}  // NOLINT(modernize-use-equals-default): leaves the buffer uninitialised

  bool append(std::span<const std::byte> bytes);
  void flush();

  uint32_t crc_;
  std::size_t pending_;
  alignas(64) std::array<std::byte, 128> buffer_;
};

/// The ICRC of one contiguous packet, `l3_to_pad`: IP header to pad, at least to the end of the BTH.
uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version);

}  // namespace uroce::wire
