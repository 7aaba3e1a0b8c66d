// A set of enumerators as its own type. Testing a plain integer, or another enum, against it does not compile.
#pragma once

#include <type_traits>

namespace uroce {

template <class E>
class Flags {
 public:
  using Bits = std::underlying_type_t<E>;

  constexpr Flags() = default;
  constexpr Flags(E e) : bits_(static_cast<Bits>(e)) {}  // NOLINT(google-explicit-constructor): one flag is a set
  /// A set from raw bits, as read from an ABI. Unknown bits are kept.
  static constexpr Flags from_bits(Bits bits) {
    Flags f;
    f.bits_ = bits;
    return f;
  }

  constexpr Bits bits() const { return bits_; }
  /// True when all bits of `e` are set.
  constexpr bool has(E e) const { return (bits_ & static_cast<Bits>(e)) == static_cast<Bits>(e); }
  constexpr bool has_all(Flags other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool has_any(Flags other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  /// The members of this set that are not in `other`.
  constexpr Flags without(Flags other) const { return from_bits(static_cast<Bits>(bits_ & ~other.bits_)); }

  friend constexpr Flags operator|(Flags a, Flags b) { return from_bits(static_cast<Bits>(a.bits_ | b.bits_)); }
  friend constexpr Flags operator&(Flags a, Flags b) { return from_bits(static_cast<Bits>(a.bits_ & b.bits_)); }
  constexpr Flags& operator|=(Flags b) { return *this = *this | b; }
  friend constexpr bool operator==(Flags, Flags) = default;

 private:
  Bits bits_ = 0;
};

/// `A | B` of two enumerators gives a set. It exists for scoped enums of 4 bytes.
template <class E>
  requires(std::is_enum_v<E> && std::is_constructible_v<Flags<E>, E> && requires { Flags<E>{}; } &&
           std::is_scoped_enum_v<E> && sizeof(E) == 4)
constexpr Flags<E> operator|(E a, E b) {
  return Flags<E>(a) | Flags<E>(b);
}

}  // namespace uroce
