// Frames as hexadecimal text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::net {

/// Spaces are for the reader.
inline std::vector<std::byte> from_hex(std::string_view text) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); };
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    out.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
    ++i;
  }
  return out;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[static_cast<unsigned>(b) >> 4];
    out += kDigits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace uroce::net
