// Blocks of memory that queue pairs borrow while they need more than their own. All of it is allocated once, and the
// operating system provides it as it is touched; the block that came back last goes first, because caches have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace uroce::transport {

class BlockPool {
 public:
  static constexpr uint32_t kMaxUsers = 1025;

  /// `bytes` of each block; a multiple of 64.
  BlockPool(uint32_t blocks, std::size_t bytes)
      : blocks_(blocks), memory_(new std::byte[blocks * bytes]), free_(blocks), held_(kMaxUsers) {
    for (uint32_t i = 0; i < blocks; ++i) free_[i] = memory_.get() + (blocks - 1 - i) * bytes;
  }
  /// A block of any content. Nullptr: `user`, 0..kMaxUsers - 1, has four times as many as are free (dynamic
  /// thresholds), so that no user takes them all.
  std::byte* take(uint16_t user) { return held_[user] < kUserShare * free_.size() ? take_again(user) : nullptr; }
  /// As take(), for who had one: only a pool without any block has none.
  std::byte* take_again(uint16_t user) {
    if (free_.empty()) return nullptr;
    std::byte* const block = free_.back();
    free_.pop_back();
    ++held_[user];
    return block;
  }
  void give_back(std::byte* block, uint16_t user) {
    free_.push_back(block);
    --held_[user];
  }
  /// Should those who need their block no more give it back now? While half of them are free, it may stay where it is:
  /// it will be needed again.
  bool scarce() const { return free_.size() < blocks_ / 2; }
  std::size_t free() const { return free_.size(); }

 private:
  static constexpr std::size_t kUserShare = 4;

  uint32_t blocks_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::byte*> free_;
  std::vector<uint32_t> held_;  // by user
};

}  // namespace uroce::transport
