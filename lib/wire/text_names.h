// Names and number formats that to_text() and from_text() share.
#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/opcode.h"

namespace uroce::wire {

/// By NakCode.
inline constexpr std::array<std::string_view, 5> kNakNames = {"psn_sequence", "invalid_request", "remote_access",
                                                              "remote_operational", "invalid_rd_request"};

/// The transport's name and a blank. Empty for operations without a transport name, such as CNP.
constexpr std::string_view transport_prefix(Transport transport) {
  switch (transport) {
    case Transport::rc: return "RC ";
    case Transport::uc: return "UC ";
    case Transport::ud: return "UD ";
    case Transport::xrc: return "XRC ";
    default: return "";
  }
}

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

}  // namespace uroce::wire
