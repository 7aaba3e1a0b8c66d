// The fields of a HELLO or SACK in the text form of packets (wire/text.h).
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/opcode.h"
#include "wire/recovery.h"

namespace uroce::test {

/// Reads a decimal number, or a hexadecimal one with 0x in front.
inline std::optional<uint64_t> number_of(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Sets `target` if `value` is a number of at most `bits` bits. Otherwise returns the error's text.
template <class T>
std::string set_number(T& target, std::string_view key, std::string_view value, unsigned bits) {
  const std::optional<uint64_t> n = number_of(value);
  if (!n) return fmt::format("{}={} is not a number", key, value);
  if (bits < 64 && *n >> bits != 0) return fmt::format("{}={} does not fit in {} bits", key, value, bits);
  target = static_cast<T>(*n);
  return {};
}

/// Collects the fields of one line.
class RecoveryFields {
 public:
  explicit RecoveryFields(wire::Opcode opcode) : opcode_(opcode) {}
  /// Returns an error text, or an empty one when the field is valid. No value: the operation has no such field. For a
  /// flag, `value` is empty.
  std::optional<std::string> set(std::string_view key, std::string_view value);
  /// Writes the fields to `payload`, which stays unchanged when no field was set. Returns an error text, or an empty
  /// one.
  std::string store(std::vector<std::byte>& payload);

 private:
  std::optional<std::string> set_hello(std::string_view key, std::string_view value);
  std::optional<std::string> set_sack(std::string_view key, std::string_view value);
  std::string set_bits();

  wire::Opcode opcode_;
  bool any_ = false;
  wire::Hello hello_{.epoch = 1, .parking = 255};
  wire::Sack sack_{};
  std::string bits_;
};

}  // namespace uroce::test
