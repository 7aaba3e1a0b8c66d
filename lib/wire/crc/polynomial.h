// Constants of CRC-32 (polynomial 0x04c11db7, bit-reflected), computed from the polynomial. ../README.md explains them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::wire::crc {

/// P: bit i is the coefficient of x^i.
inline constexpr uint64_t kPolynomial = 0x104c11db7;

/// The lowest `bits` bits of `value` in reverse order.
consteval uint64_t reflect(uint64_t value, unsigned bits) {
  uint64_t out = 0;
  for (unsigned i = 0; i < bits; ++i) out |= (value >> i & 1) << (bits - 1 - i);
  return out;
}

/// x^n mod P.
consteval uint32_t power_of_x(unsigned n) {
  uint64_t rest = 1;
  for (unsigned i = 0; i < n; ++i) {
    rest <<= 1;
    if ((rest >> 32) != 0) rest ^= kPolynomial;
  }
  return static_cast<uint32_t>(rest);
}

/// A carry-less multiplication of a reflected 64-bit half by this gives, in a reflected 128-bit register, the product
/// with x^n mod P, times x^32.
consteval uint64_t multiplier(unsigned n) { return reflect(power_of_x(n), 32) << 1; }

/// floor(x^96 / P) without its last term, divided by x, reflected. The last term never reaches the quotient.
consteval uint64_t barrett_multiplier() {
  uint64_t quotient = 0, rest = 0;
  for (unsigned power = 96; power >= 1; --power) {
    rest = rest << 1 | (power == 96 ? 1 : 0);
    const bool subtract = (rest >> 32 & 1) != 0;
    quotient = quotient << 1 | (subtract ? 1 : 0);
    if (subtract) rest ^= kPolynomial;
  }
  return reflect(quotient, 64);
}

/// The register after each byte and `zeros` zeros, from register 0.
consteval std::array<uint32_t, 256> registers_after(std::size_t zeros) {
  constexpr auto kReflected = static_cast<uint32_t>(reflect(kPolynomial & 0xffffffff, 32));
  std::array<uint32_t, 256> registers{};
  for (uint32_t byte = 0; byte < registers.size(); ++byte) {
    uint32_t crc = byte;
    for (std::size_t bit = 0; bit < 8 * (zeros + 1); ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? kReflected : 0);
    }
    registers[byte] = crc;
  }
  return registers;
}

inline constexpr uint64_t kBarrett = barrett_multiplier();
/// P times x^31, reflected in 64 bits.
inline constexpr uint64_t kReflectedPolynomial = reflect(kPolynomial, 33);
static_assert(kReflectedPolynomial == 0x1db710641);

/// For each 128-bit lane of the last `Lanes` lanes, in the order of the bytes: multipliers of its low and high half
/// that move it to the end of the message and 32 bits further, where the CRC is.
template <std::size_t Lanes>
struct LaneMultipliers {
  alignas(64) uint64_t halves[Lanes][2];

  consteval LaneMultipliers() : halves{} {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      const unsigned bits_behind = 128 * static_cast<unsigned>(Lanes - 1 - lane);
      halves[lane][0] = multiplier(bits_behind + 96);
      halves[lane][1] = multiplier(bits_behind + 32);
    }
  }
};
template <std::size_t Lanes>
inline constexpr LaneMultipliers<Lanes> kToTheEnd;

/// Multipliers that move a lane forward by `Bits`.
template <unsigned Bits>
inline constexpr uint64_t kForward[2] = {multiplier(Bits + 32), multiplier(Bits - 32)};

}  // namespace uroce::wire::crc
