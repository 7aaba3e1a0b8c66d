#include "wire/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace uroce::wire {
namespace {

/// The CRC runs over eight 0xff bytes first. crc32_gzip_refl() complements on the way in and out as zlib does, so a
/// running value is the complement of the register: ~0xdebb20e3 after those bytes, and the last one is the ICRC.
constexpr uint32_t kAfterPrefix = 0x2144df1c;

constexpr std::size_t kHeaders4 = 20 + 8 + 12;
constexpr std::size_t kHeaders6 = 40 + 8 + 12;

/// Fields that routers may change count as ones (annex A17.3.3): a mask over IP, UDP and BTH.
template <std::size_t N, std::size_t... Ones>
constexpr std::array<uint8_t, N> make_mask() {
  std::array<uint8_t, N> mask{};
  ((mask[Ones] = 0xff), ...);
  if (N == kHeaders6) mask[0] = 0x0f;  // the version nibble counts
  return mask;
}
// TOS, TTL, header checksum; UDP checksum; BTH byte 4.
constexpr auto kMask4 = make_mask<kHeaders4, 1, 8, 10, 11, 26, 27, 32>();
// Traffic class and flow label, hop limit; UDP checksum; BTH byte 4.
constexpr auto kMask6 = make_mask<kHeaders6, 1, 2, 3, 7, 46, 47, 52>();

template <std::size_t N>
inline std::size_t copy_masked(std::byte* out, const std::byte* in, const std::array<uint8_t, N>& mask) {
  for (std::size_t i = 0; i < N; ++i) out[i] = in[i] | static_cast<std::byte>(mask[i]);
  return N;
}

inline uint32_t crc(uint32_t value, const std::byte* p, std::size_t n) {
  return crc32_gzip_refl(value, reinterpret_cast<const unsigned char*>(p), n);
}

/// Two chunks (source and copy) and the CRC's constants stay in a 32 KiB L1.
constexpr std::size_t kChunk = 4096;
/// Masked headers and what of the packet still fits go through one CRC call: a call costs more than a small copy.
constexpr std::size_t kHead = 128;

}  // namespace

uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version) {
  assert(l3_to_pad.size() >= (ip_version == 4 ? kHeaders4 : kHeaders6));
  alignas(64) std::byte head[kHead];
  const std::size_t masked =
      ip_version == 4 ? copy_masked(head, l3_to_pad.data(), kMask4) : copy_masked(head, l3_to_pad.data(), kMask6);
  const std::size_t n = std::min(l3_to_pad.size(), kHead);
  std::memcpy(head + masked, l3_to_pad.data() + masked, n - masked);
  const uint32_t value = crc(kAfterPrefix, head, n);
  return n == l3_to_pad.size() ? value : crc(value, l3_to_pad.data() + n, l3_to_pad.size() - n);
}

IcrcState IcrcState::begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version) {
  assert(l3_to_headers.size() <= kHead);
  IcrcState state;
  state.crc_ = icrc_of(l3_to_headers, ip_version);
  return state;
}

void IcrcState::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) crc_ = crc(crc_, bytes.data(), bytes.size());
}

void IcrcState::copy(std::byte* dst, std::span<const std::byte> src) {
  while (!src.empty()) {
    const auto chunk = src.first(std::min(src.size(), kChunk));
    std::memcpy(dst, chunk.data(), chunk.size());
    // The copy, not the source: memory that an application can write may change between the two reads, and the ICRC
    // must match what is sent.
    crc_ = crc(crc_, dst, chunk.size());
    dst += chunk.size();
    src = src.subspan(chunk.size());
  }
}

}  // namespace uroce::wire
