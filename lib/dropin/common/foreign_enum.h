// Enumerations in memory that programs write. A program that was built with later headers stores enumerators that ours
// lack, and others leave members unset that a mask excludes. C++ lets no enumeration of these headers have such a value
// (expr.static.cast), so they are read and written as integers.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace uroce::dropin {

template <class Enum>
  requires std::is_enum_v<Enum>
std::underlying_type_t<Enum> number_of(const Enum& member) {
  std::underlying_type_t<Enum> number;
  std::memcpy(&number, &member, sizeof(number));
  return number;
}

template <class Enum>
  requires std::is_enum_v<Enum>
void set_number(Enum& member, std::underlying_type_t<Enum> number) {
  std::memcpy(&member, &number, sizeof(number));
}

/// The API's enumerator for a program's number. The API's types are smaller: a number that they cannot hold becomes
/// their largest, which is refused as unknown.
template <class Enum>
  requires std::is_enum_v<Enum>
Enum to_api(uint32_t number) {
  using Number = std::underlying_type_t<Enum>;
  constexpr Number kUnknown = std::numeric_limits<Number>::max();
  return static_cast<Enum>(number < kUnknown ? static_cast<Number>(number) : kUnknown);
}

}  // namespace uroce::dropin
