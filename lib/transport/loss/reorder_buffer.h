// Frames of one queue pair that arrived ahead of their turn, by PSN. The engine's frame pool has their bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/psn.h"
#include "transport/core/frame_pool.h"
#include "transport/core/psn_set.h"

namespace uroce::transport {

class ReorderBuffer {
 public:
  /// For a window of `window` packets: keeps frames less than that far ahead, at most PsnSet::kSize.
  explicit ReorderBuffer(uint32_t window) : size_(std::min(std::bit_ceil(window), PsnSet::kSize)) {}

  /// How many packets beyond the expected one fit.
  uint32_t capacity() const { return size_ - 1; }
  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  /// Is the frame with `psn` here, when `expected` is the PSN whose turn it is?
  bool has(Psn psn, Psn expected) const { return count_ != 0 && index_->psns.has(psn) && reaches(psn, expected); }
  /// Copies a frame of `holder` into `pool`. False: it is too far ahead of `expected`, its place is taken, or the pool
  /// has no room for this buffer.
  bool keep(FramePool& pool, const FrameHolder& holder, Psn psn, Psn expected, std::span<const std::byte> frame) {
    return pool.has_room(holder, count_) && restore(pool, holder, psn, expected, frame);
  }
  /// As keep(), for a frame that the peer knows to be here: only a full pool has no room.
  bool restore(FramePool& pool, const FrameHolder& holder, Psn psn, Psn expected, std::span<const std::byte> frame) {
    if (!reaches(psn, expected) || (count_ != 0 && number(psn) != 0)) return false;
    const uint16_t kept = pool.keep(frame, holder);
    if (kept == 0) return false;
    if (count_ == 0) index_ = &pool.take_index();
    number(psn) = kept;
    index_->psns.add(psn);
    if (count_++ == 0 || distance(psn + 1, end_) > 0) end_ = psn + 1;
    return true;
  }
  /// Takes the frame with `psn` out. Returns its number in the pool, which the caller releases; 0 for none.
  uint16_t take(FramePool& pool, Psn psn) {
    if (count_ == 0) return 0;
    const uint16_t taken = std::exchange(number(psn), uint16_t{0});
    if (taken == 0) return 0;
    index_->psns.remove(psn);
    if (--count_ == 0) pool.give_back(*index_);
    return taken;
  }
  /// Drops the frames in [from, to), which lie less than PsnSet::kSize apart.
  void drop(FramePool& pool, Psn from, Psn to) {
    const auto span = static_cast<uint32_t>(std::clamp(distance(to, from), 0, static_cast<int32_t>(PsnSet::kSize)));
    while (count_ != 0) {
      const uint32_t at = index_->psns.next(from, span);
      if (at == span) return;
      pool.release(take(pool, from + at));
    }
  }
  void drop_all(FramePool& pool) {
    if (count_ == 0) return;
    for (uint32_t i = 0; count_ != 0; ++i) {
      if (index_->numbers[i] == 0) continue;
      pool.release(std::exchange(index_->numbers[i], uint16_t{0}));
      --count_;
    }
    index_->psns.clear();
    pool.give_back(*index_);
  }
  /// One past the newest frame; meaningful while not empty.
  Psn end() const { return end_; }
  /// Calls `visit(psn, number in the pool)` for each frame, the oldest first.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (uint32_t age = size_; age > 0 && count_ != 0; --age) {
      const Psn psn = end_ - age;
      const uint16_t number = index_->numbers[psn.value() & (size_ - 1)];
      if (number != 0) visit(psn, number);
    }
  }
  /// A bit for each of the 64 PSNs from `from` on: is its frame here? The lowest bit is first. Not while empty.
  uint64_t bits_from(Psn from) const { return index_->psns.bits_from(from); }

 private:
  bool reaches(Psn psn, Psn expected) const { return distance(psn, expected) < static_cast<int32_t>(size_); }
  uint16_t& number(Psn psn) { return index_->numbers[psn.value() & (size_ - 1)]; }

  FrameIndex* index_ = nullptr;  // of the pool, while not empty
  uint32_t size_;                // PSNs, a power of two
  uint32_t count_ = 0;
  Psn end_{};
};

}  // namespace uroce::transport
