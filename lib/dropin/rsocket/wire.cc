#include "dropin/rsocket/wire.h"

#include <algorithm>
#include <bit>
#include <concepts>

namespace uroce::dropin::rsocket::wire {

namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kBigEndian = 1 << 0;
constexpr uint8_t kMaps = 1 << 1;
// Offsets in the greeting.
constexpr std::size_t kFlags = 1, kCredits = 2, kMappings = 7, kTargetTable = 8, kBuffer = 24;

template <std::unsigned_integral T>
void put(std::span<std::byte> to, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    to[at + i] = static_cast<std::byte>(value >> 8 * (sizeof(T) - 1 - i));
  }
}

template <std::unsigned_integral T>
T get(std::span<const std::byte> from, std::size_t at) {
  uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = value << 8 | std::to_integer<uint64_t>(from[at + i]);
  return static_cast<T>(value);
}

void put_target(std::span<std::byte> to, std::size_t at, const Target& target) {
  put(to, at, target.address);
  put(to, at + 8, target.key);
  put(to, at + 12, target.length);
}

Target get_target(std::span<const std::byte> from, std::size_t at) {
  return {get<uint64_t>(from, at), get<uint32_t>(from, at + 8), get<uint32_t>(from, at + 12)};
}

// Encodes a number of mappings in a byte: up to 128 as it is, above that in units of 256 with the top bit set.
constexpr uint32_t kPlain = 128;
constexpr uint32_t kUnit = 256;

uint8_t to_scale(uint32_t value) {
  if (value <= kPlain) return static_cast<uint8_t>(value);
  return static_cast<uint8_t>(kPlain | std::min(value / kUnit, kPlain - 1));
}

uint32_t from_scale(uint8_t scale) { return scale <= kPlain ? scale : (scale & ~kPlain) * kUnit; }

}  // namespace

std::array<std::byte, kGreetingSize> encode(const Greeting& greeting) {
  std::array<std::byte, kGreetingSize> out{};
  put(out, 0, kVersion);
  put(out, kFlags, static_cast<uint8_t>((greeting.big_endian ? kBigEndian : 0) | (greeting.maps ? kMaps : 0)));
  put(out, kCredits, greeting.credits);
  put(out, kMappings, to_scale(greeting.mappings));
  put_target(out, kTargetTable, greeting.targets);
  put_target(out, kBuffer, greeting.buffer);
  return out;
}

std::optional<Greeting> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kGreetingSize || get<uint8_t>(bytes, 0) != kVersion) return std::nullopt;
  Greeting out;
  const auto flags = get<uint8_t>(bytes, kFlags);
  out.big_endian = (flags & kBigEndian) != 0;
  out.maps = (flags & kMaps) != 0;
  out.credits = get<uint16_t>(bytes, kCredits);
  out.mappings = out.maps ? from_scale(get<uint8_t>(bytes, kMappings)) : 0;
  out.targets = get_target(bytes, kTargetTable);
  out.buffer = get_target(bytes, kBuffer);
  return out;
}

uint32_t mapping_entries(uint32_t wanted) { return from_scale(to_scale(wanted)); }

namespace {

constexpr uint32_t kTag = 0x55555555;
constexpr std::size_t kSender4 = 8, kSender6 = 24;
constexpr std::size_t kIntroduction4 = 16, kIntroduction6 = 28;

void put_ip(std::span<std::byte> to, std::size_t at, const Gid& ip) {
  if (ip.is_ipv4()) return put(to, at, ip.ipv4());
  for (std::size_t i = 0; i < ip.bytes.size(); ++i) to[at + i] = static_cast<std::byte>(ip.bytes[i]);
}

Gid get_ip(std::span<const std::byte> from, std::size_t at, bool ipv4) {
  if (ipv4) return Gid::from_ipv4(get<uint32_t>(from, at));
  Gid ip;
  for (std::size_t i = 0; i < ip.bytes.size(); ++i) ip.bytes[i] = std::to_integer<uint8_t>(from[at + i]);
  return ip;
}

}  // namespace

std::size_t encode(const Sender& sender, std::span<std::byte> to) {
  const bool ipv4 = sender.ip.is_ipv4();
  const std::size_t size = ipv4 ? kSender4 : kSender6;
  std::ranges::fill(to.first(size), std::byte{0});
  put(to, 0, static_cast<uint8_t>(ipv4 ? 4 : 6));
  put(to, 1, static_cast<uint8_t>(size));
  put(to, 2, sender.port);
  put_ip(to, ipv4 ? 4 : 8, sender.ip);
  return size;
}

std::optional<std::pair<Sender, std::size_t>> decode_sender(std::span<const std::byte> bytes) {
  if (bytes.size() < kSender4) return std::nullopt;
  const bool ipv4 = get<uint8_t>(bytes, 0) == 4;
  const std::size_t size = ipv4 ? kSender4 : kSender6;
  if ((!ipv4 && get<uint8_t>(bytes, 0) != 6) || get<uint8_t>(bytes, 1) != size || bytes.size() < size) {
    return std::nullopt;
  }
  return std::pair(Sender{get_ip(bytes, ipv4 ? 4 : 8, ipv4), get<uint16_t>(bytes, 2)}, size);
}

std::size_t encode(const Introduction& introduction, std::span<std::byte> to) {
  const bool ipv4 = introduction.ip.is_ipv4();
  const std::size_t size = ipv4 ? kIntroduction4 : kIntroduction6;
  put(to, 0, kTag);
  put(to, 4, static_cast<uint8_t>(ipv4 ? 4 : 6));
  put(to, 5, static_cast<uint8_t>(introduction.asks ? Op::data : Op::control));
  put(to, 6, static_cast<uint8_t>(size));
  put(to, 7, uint8_t{0});
  put(to, 8, introduction.qpn & 0xffffff);
  put_ip(to, 12, introduction.ip);
  return size;
}

std::optional<std::pair<Introduction, std::size_t>> decode_introduction(std::span<const std::byte> bytes) {
  if (bytes.size() < kIntroduction4 || get<uint32_t>(bytes, 0) != kTag) return std::nullopt;
  const bool ipv4 = get<uint8_t>(bytes, 4) == 4;
  const std::size_t size = ipv4 ? kIntroduction4 : kIntroduction6;
  if ((!ipv4 && get<uint8_t>(bytes, 4) != 6) || get<uint8_t>(bytes, 6) != size || bytes.size() < size) {
    return std::nullopt;
  }
  const auto op = static_cast<Op>(get<uint8_t>(bytes, 5));
  if (op != Op::data && op != Op::control) return std::nullopt;
  return std::pair(Introduction{op == Op::data, get<uint32_t>(bytes, 8) & 0xffffff, get_ip(bytes, 12, ipv4)}, size);
}

Target swapped(const Target& target) {
  return {std::byteswap(target.address), std::byteswap(target.key), std::byteswap(target.length)};
}

Mapping swapped(const Mapping& mapping) { return {std::byteswap(mapping.offset), swapped(mapping.memory)}; }

}  // namespace uroce::dropin::rsocket::wire
