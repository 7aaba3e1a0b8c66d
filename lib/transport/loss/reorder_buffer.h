// Frames of one queue pair that arrived ahead of their turn, by PSN. The engine's frame pool has their bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/psn.h"
#include "transport/core/frame_pool.h"
#include "transport/loss/psn_set.h"

namespace uroce::transport {

class ReorderBuffer {
 public:
  /// For a window of `window` packets: keeps frames less than that far ahead, at most PsnSet::kSize.
  explicit ReorderBuffer(uint32_t window) : numbers_(std::min(std::bit_ceil(window), PsnSet::kSize)) {}

  /// How many packets beyond the expected one fit.
  uint32_t capacity() const { return static_cast<uint32_t>(numbers_.size()) - 1; }
  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  /// Is the frame with `psn` here, when `expected` is the PSN whose turn it is?
  bool has(Psn psn, Psn expected) const { return psns_.has(psn) && reaches(psn, expected); }
  /// Copies a frame of `holder` into `pool`. False: it is too far ahead of `expected`, its place is taken, or the pool
  /// has no room for this buffer.
  bool keep(FramePool& pool, const FrameHolder& holder, Psn psn, Psn expected, std::span<const std::byte> frame) {
    return pool.has_room(holder, count_) && restore(pool, holder, psn, expected, frame);
  }
  /// As keep(), for a frame that the peer knows to be here: only a full pool has no room.
  bool restore(FramePool& pool, const FrameHolder& holder, Psn psn, Psn expected, std::span<const std::byte> frame) {
    if (!reaches(psn, expected) || number(psn) != 0) return false;
    const uint16_t kept = pool.keep(frame, holder);
    if (kept == 0) return false;
    number(psn) = kept;
    psns_.add(psn);
    if (count_++ == 0 || distance(psn + 1, end_) > 0) end_ = psn + 1;
    return true;
  }
  /// Takes the frame with `psn` out. Returns its number in the pool, which the caller releases; 0 for none.
  uint16_t take(Psn psn) {
    const uint16_t taken = std::exchange(number(psn), uint16_t{0});
    if (taken == 0) return 0;
    psns_.remove(psn);
    --count_;
    return taken;
  }
  /// Drops the frames in [from, to), which lie less than PsnSet::kSize apart.
  void drop(FramePool& pool, Psn from, Psn to) {
    const auto span = static_cast<uint32_t>(std::clamp(distance(to, from), 0, static_cast<int32_t>(PsnSet::kSize)));
    for (uint32_t at = psns_.next(from, span); at < span; at = psns_.next(from, span)) pool.release(take(from + at));
  }
  void drop_all(FramePool& pool) {
    for (std::size_t i = 0; i < numbers_.size() && count_ != 0; ++i) {
      if (numbers_[i] == 0) continue;
      pool.release(std::exchange(numbers_[i], uint16_t{0}));
      --count_;
    }
    psns_.clear();
  }
  /// One past the newest frame; meaningful while not empty.
  Psn end() const { return end_; }
  /// Calls `visit(psn, number in the pool)` for each frame, the oldest first.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const auto size = static_cast<uint32_t>(numbers_.size());
    for (uint32_t age = size; age > 0 && count_ != 0; --age) {
      const Psn psn = end_ - age;
      const uint16_t number = numbers_[psn.value() & (size - 1)];
      if (number != 0) visit(psn, number);
    }
  }
  /// A bit for each of the 64 PSNs from `from` on: is its frame here? The lowest bit is first.
  uint64_t bits_from(Psn from) const { return psns_.bits_from(from); }

 private:
  bool reaches(Psn psn, Psn expected) const { return distance(psn, expected) < static_cast<int32_t>(numbers_.size()); }
  uint16_t& number(Psn psn) { return numbers_[psn.value() & (numbers_.size() - 1)]; }

  std::vector<uint16_t> numbers_;  // a ring by PSN: the frame's number in the pool, 0 for none
  PsnSet psns_;
  uint32_t count_ = 0;
  Psn end_{};
};

}  // namespace uroce::transport
