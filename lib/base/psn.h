// Packet sequence numbers: 24 bits that wrap (IBTA vol. 1, 9.7.1).
#pragma once

#include <cstdint>

namespace uroce {

/// A 24-bit sequence number. There is no operator<, because numbers wrap: compare with distance().
class Psn {
 public:
  static constexpr uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  /// The low 24 bits of `value`.
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }
  constexpr Psn operator+(uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator++() { return *this = *this + 1; }
  constexpr Psn& operator+=(uint32_t n) { return *this = *this + n; }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t value_ = 0;
};

/// How far `a` is ahead of `b`: -2^23 .. 2^23-1, negative when `a` is older.
constexpr int32_t distance(Psn a, Psn b) { return static_cast<int32_t>((a.value() - b.value()) << 8) >> 8; }

static_assert(distance(Psn(0), Psn(0xffffff)) == 1);
static_assert(distance(Psn(0xffffff), Psn(0)) == -1);

}  // namespace uroce
