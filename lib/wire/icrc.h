// The invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 over the frame from the IP header on. Fields that routers may
// change count as ones. crc/kernel.h has the code for each CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/crc/kernel.h"
#include "wire/header_bytes.h"

namespace uroce::wire {

/// A CRC in progress. Pass the headers to begin(), then the payload in order, then the rest of the frame to finish().
class IcrcState {
 public:
  /// `l3_to_headers`: IP header to the last extended header, contiguous, lengths already final.
  /// `ip_version` is 4 or 6. At least to the end of the BTH's second word.
  static IcrcState begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version);
  /// Behind headers after which the register is `crc` (FlowIcrc).
  static IcrcState resume(uint32_t crc) { return IcrcState(crc); }
  void update(std::span<const std::byte> bytes) { crc_ = crc::active().update(crc_, bytes.data(), bytes.size()); }
  /// Copies `src` to `dst` (no overlap) and updates the CRC with the same bytes, each read once. The ICRC then fits
  /// the packet even if an application changes the source at the same time.
  void copy(std::byte* dst, std::span<const std::byte> src) {
    crc_ = crc::active().copy(crc_, dst, src.data(), src.size());
  }
  /// The value to store little-endian after the pad.
  uint32_t value() const { return ~crc_; }
  /// Writes `pad` zeros and the ICRC at `at`. Returns the end of the frame.
  std::byte* finish(std::byte* at, std::size_t pad) {
    if (pad != 0) write_pad(at, pad);
    store_le32(at + pad, value());
    return at + pad + kIcrcBytes;
  }

 private:
  explicit IcrcState(uint32_t crc) : crc_(crc) {}
  void write_pad(std::byte* at, std::size_t pad);

  uint32_t crc_;
};

/// The ICRC of one contiguous packet, `l3_to_pad`: IP header to pad, at least to the end of the BTH's second word.
uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version);

}  // namespace uroce::wire
