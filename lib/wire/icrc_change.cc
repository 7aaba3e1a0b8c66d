// Numbers are polynomials in x over GF(2), bit-reflected: bit 31 is the coefficient of x^0.
#include "wire/icrc_change.h"

#include <cassert>

#include "wire/crc/polynomial.h"

namespace uroce::wire {
namespace {

constexpr uint32_t kReflected = 0xedb88320;  // the polynomial without x^32
constexpr uint32_t kOne = uint32_t{1} << 31;
constexpr unsigned kPowers = 17;

constexpr uint32_t times_x(uint32_t value) { return (value & 1) != 0 ? value >> 1 ^ kReflected : value >> 1; }
constexpr uint32_t divided_by_x(uint32_t value) {
  return (value & kOne) != 0 ? (value ^ kReflected) << 1 | 1 : value << 1;
}

constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kOne) != 0) sum ^= b;
    b = times_x(b);
  }
  return sum;
}

/// Entry k: a step of one byte, 2^k times.
consteval std::array<uint32_t, kPowers> powers(uint32_t (*step)(uint32_t)) {
  std::array<uint32_t, kPowers> out{};
  uint32_t power = kOne;
  for (int bit = 0; bit < 8; ++bit) power = step(power);
  for (uint32_t& entry : out) {
    entry = power;
    power = product(power, power);
  }
  return out;
}
constexpr auto kForward = powers(times_x), kBackward = powers(divided_by_x);

constexpr auto kTable = crc::registers_after(0);

/// The byte whose entry of kTable has this highest byte.
consteval std::array<uint8_t, 256> byte_of_entry() {
  std::array<uint8_t, 256> out{};
  for (unsigned byte = 0; byte < out.size(); ++byte) out[kTable[byte] >> 24] = static_cast<uint8_t>(byte);
  return out;
}
constexpr auto kByteOfEntry = byte_of_entry();

uint32_t power_of(const std::array<uint32_t, kPowers>& powers, std::size_t bytes) {
  assert(bytes >> kPowers == 0);
  uint32_t power = kOne;
  for (unsigned k = 0; bytes != 0; ++k, bytes >>= 1) {
    if ((bytes & 1) != 0) power = product(power, powers[k]);
  }
  return power;
}

}  // namespace

uint32_t IcrcChange::of_field(uint16_t bits, uint32_t power) {
  const uint32_t first = kTable[bits >> 8];
  return product(first >> 8 ^ kTable[(first ^ bits) & 0xff], power);
}

// The register after the field's two bytes is table[low ^ first & 0xff] ^ first >> 8, with first = table[high]. The
// entries of the table have different highest bytes, and first >> 8 has none.
std::optional<uint16_t> IcrcChange::field_of(uint32_t change, uint32_t power) {
  const uint32_t after = product(change, power);
  const uint8_t index = kByteOfEntry[after >> 24];
  const uint32_t upper = (after ^ kTable[index]) << 8;  // of `first`, whose lowest byte is not known yet
  const uint8_t high = kByteOfEntry[upper >> 24];
  const uint32_t first = kTable[high];
  if ((first & ~uint32_t{0xff}) != upper) return std::nullopt;
  return static_cast<uint16_t>(high << 8 | ((first ^ index) & 0xff));
}

uint32_t IcrcChange::forward(std::size_t behind) {
  Factor& factor = forward_[behind / 4 % kRemembered];
  if (factor.behind != behind) factor = {behind, power_of(kForward, behind)};
  return factor.power;
}

uint32_t IcrcChange::backward(std::size_t behind) {
  Factor& factor = backward_[behind / 4 % kRemembered];
  if (factor.behind != behind) factor = {behind, power_of(kBackward, behind)};
  return factor.power;
}

}  // namespace uroce::wire
