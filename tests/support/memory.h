// Memory for tests: aligned, zeroed, and, for payload, fenced by guard bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace uroce::test {

/// Ends the test program with a sentence when the test itself is wrong.
void require(bool condition, const std::string& what);

struct FreeDeleter {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeDeleter>;

/// `size` zeroed bytes, 64-byte aligned, as rings and doorbells want them.
AlignedBytes make_aligned(std::size_t size);

/// The byte that payload number `stream` has at `offset`: what tests fill buffers with, and check against.
constexpr std::byte pattern_byte(uint64_t stream, uint64_t offset) {
  const uint64_t x = (stream * 0x9e3779b97f4a7c15 + offset + 1) * 0xd6e8feb86659fd93;
  return static_cast<std::byte>(x >> 56);
}
void fill_pattern(std::span<std::byte> bytes, uint64_t stream, uint64_t offset = 0);
/// Offset of the first byte that differs from the pattern, or bytes.size().
std::size_t find_mismatch(std::span<const std::byte> bytes, uint64_t stream, uint64_t offset = 0);

/// A buffer between two guards that nobody may write.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t size);

  std::span<std::byte> bytes() { return {memory_.get() + kGuard, size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get() + kGuard, size_}; }
  bool guards_intact() const;

 private:
  static constexpr std::size_t kGuard = 4096;
  std::size_t size_;
  AlignedBytes memory_;
};

}  // namespace uroce::test
