#include "wire/icrc.h"

#include <algorithm>
#include <cassert>

namespace uroce::wire {
namespace {

constexpr std::size_t kLeast4 = 20 + 8 + 8;
static_assert(kLeast4 >= crc::kLeastMasked);

/// Fields that routers may change count as ones (annex A17.3.3): offsets from the IP header. `first`: those bits of
/// byte 0. The CRC runs over eight 0xff bytes first, after which the register is 0xdebb20e3; adding that to the first
/// four bytes of the packet does the same.
consteval crc::HeadMask make_mask(uint8_t first, std::initializer_list<std::size_t> ones) {
  crc::HeadMask mask{};
  std::fill(mask.keep + crc::HeadMask::kBefore, std::end(mask.keep), uint8_t{0xff});
  const auto set = [&mask](std::size_t offset, uint8_t bits) {
    mask.keep[crc::HeadMask::kBefore + offset] = static_cast<uint8_t>(~bits);
    mask.flip[crc::HeadMask::kBefore + offset] = bits;
  };
  set(0, first);
  for (const std::size_t offset : ones) set(offset, 0xff);
  constexpr uint32_t kAfterPrefix = 0xdebb20e3;
  for (std::size_t i = 0; i < 4; ++i) {
    mask.flip[crc::HeadMask::kBefore + i] ^= static_cast<uint8_t>(kAfterPrefix >> 8 * i);
  }
  return mask;
}
// TOS, TTL, header checksum; UDP checksum; BTH byte 4.
constexpr crc::HeadMask kMask4 = make_mask(0, {1, 8, 10, 11, 26, 27, 32});
// Traffic class and flow label but not the version, hop limit; UDP checksum; BTH byte 4.
constexpr crc::HeadMask kMask6 = make_mask(0x0f, {1, 2, 3, 7, 46, 47, 52});

inline uint32_t masked(std::span<const std::byte> l3, uint8_t ip_version) {
  assert(l3.size() >= kLeast4);
  return crc::active().masked(ip_version == 4 ? kMask4 : kMask6, l3.data(), l3.size());
}

}  // namespace

uint32_t icrc_of(std::span<const std::byte> l3_to_pad, uint8_t ip_version) { return ~masked(l3_to_pad, ip_version); }

IcrcState IcrcState::begin(std::span<const std::byte> l3_to_headers, uint8_t ip_version) {
  return IcrcState(masked(l3_to_headers, ip_version));
}

void IcrcState::write_pad(std::byte* at, std::size_t pad) {
  std::fill_n(at, pad, std::byte{0});
  update({at, pad});
}

}  // namespace uroce::wire
