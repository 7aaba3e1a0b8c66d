// Reads the daemon's values, and turns them into words for people.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace uroce::cli {

/// A value of an ObjectRow by its name: addresses in their usual form (empty for none), access flags by their names. A
/// value that cannot be read stays as it is.
std::string readable(std::string_view name, std::string value);

/// The number that is the whole text, without a sign or a prefix.
template <std::unsigned_integral T>
std::optional<T> whole_number(std::string_view text, int base = 10) {
  T number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace uroce::cli
