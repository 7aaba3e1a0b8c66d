#include "tests/support/memory.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace uroce::test {

namespace {
constexpr std::byte kGuardByte{0xa5};
}

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "broken test: %s\n", what.c_str());
  std::abort();
}

AlignedBytes make_aligned(std::size_t size) {
  const std::size_t rounded = (size + 63) & ~std::size_t{63};
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  require(p != nullptr, "out of memory");
  std::memset(p, 0, rounded);
  return AlignedBytes(p);
}

void fill_pattern(std::span<std::byte> bytes, uint64_t stream, uint64_t offset) {
  for (std::byte& byte : bytes) byte = pattern_byte(stream, offset++);
}

std::size_t find_mismatch(std::span<const std::byte> bytes, uint64_t stream, uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern_byte(stream, offset + i)) return i;
  }
  return bytes.size();
}

GuardedBuffer::GuardedBuffer(std::size_t size) : size_(size), memory_(make_aligned(size + 2 * kGuard)) {
  std::memset(memory_.get(), static_cast<int>(kGuardByte), kGuard);
  std::memset(memory_.get() + kGuard + size_, static_cast<int>(kGuardByte), kGuard);
}

bool GuardedBuffer::guards_intact() const {
  static const std::vector<std::byte> whole(kGuard, kGuardByte);
  const std::byte* back = memory_.get() + kGuard + size_;
  return std::memcmp(memory_.get(), whole.data(), kGuard) == 0 && std::memcmp(back, whole.data(), kGuard) == 0;
}

}  // namespace uroce::test
