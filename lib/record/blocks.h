// Copies and comparisons in blocks, by vector registers: a call of memcpy() costs more than what it copies here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::record {

using Block = uint64_t __attribute__((vector_size(16)));

inline Block load_block(const std::byte* from) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}
inline void store_block(std::byte* to, const Block& block) { std::memcpy(to, &block, sizeof block); }

/// Copies whole blocks to two places. They are read once.
template <std::size_t kBytes>
[[gnu::always_inline]] inline void copy_blocks(std::byte* to, std::byte* also_to, const std::byte* from) {
  static_assert(kBytes % sizeof(Block) == 0);
  for (std::size_t at = 0; at < kBytes; at += sizeof(Block)) {
    const Block block = load_block(from + at);
    store_block(to + at, block);
    store_block(also_to + at, block);
  }
}

}  // namespace uroce::record
