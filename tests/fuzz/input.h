// A fuzzer's input as a program to read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace uroce::test {

/// The input, read from the front; zeros once it is used up.
class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(sizeof value, bytes_.size());
    if (n != 0) std::memcpy(&value, bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return value;
  }
  uint32_t below(uint32_t bound) { return take<uint16_t>() % bound; }
  void fill(std::span<std::byte> out) {
    for (std::byte& b : out) b = take<std::byte>();
  }

 private:
  std::span<const uint8_t> bytes_;
};

/// Ends the run, so that the fuzzer keeps the input.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace uroce::test
