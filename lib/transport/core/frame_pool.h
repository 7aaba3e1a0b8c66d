// Memory for received frames that are ahead of their turn. One pool per engine, allocated once.
//
// Thresholds that follow what is free (Choudhury and Hahne, 1998) leave room for others: a buffer may hold as many
// frames as are free, a peer of a user twice as many, the user four times as many. Alone, a buffer gets half of the
// pool, a peer two thirds and a user four fifths.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "transport/core/frame_holders.h"
#include "transport/core/psn_set.h"

namespace uroce::transport {

/// A buffer's frames by PSN.
struct FrameIndex {
  std::array<uint16_t, PsnSet::kSize> numbers;  ///< a ring: the frame's number in the pool, 0 for none
  PsnSet psns;
};

class FramePool {
 public:
  /// Ethernet to ICRC, with VLAN, IPv6 and the largest payload.
  static constexpr std::size_t kFrameBytes = 4352;
  static constexpr uint32_t kMaxUsers = 1025;
  static constexpr uint32_t kPeerShare = 2;
  static constexpr uint32_t kUserShare = 4;

  /// Room for `wanted` frames, at most 65535. The operating system provides the memory as it fills. `seed` as in
  /// FrameHolders.
  explicit FramePool(uint32_t wanted, uint64_t seed = 0) : FramePool(Frames{std::min(wanted, 65535u)}, seed) {}
  /// May a buffer that holds `held` frames of `holder`, whose user is 0..kMaxUsers - 1, have another one?
  bool has_room(const FrameHolder& holder, uint32_t held) const {
    return held < free_.size() && held_[holder.user] < kUserShare * free_.size() &&
           holders_.held_by(holder) < kPeerShare * free_.size();
  }
  /// Copies `frame`, whoever has room. Returns its number, from 1 on; 0 when the pool is full or the frame exceeds
  /// kFrameBytes.
  uint16_t keep(std::span<const std::byte> frame, const FrameHolder& holder = {}) {
    if (free_.empty() || frame.size() > kFrameBytes) return 0;
    const uint16_t number = free_.back();
    free_.pop_back();
    std::copy(frame.begin(), frame.end(), place(number));
    frames_[number - 1u] = {.length = static_cast<uint16_t>(frame.size()), .holder = holders_.add(holder)};
    ++held_[holder.user];
    return number;
  }
  std::span<const std::byte> frame(uint16_t number) const { return {place(number), frames_[number - 1u].length}; }
  /// Where one reorder buffer finds its frames; empty. There are as many as frames, and a buffer without frames has
  /// none: a buffer that keep() gave its first frame finds one.
  FrameIndex& take_index() {
    FrameIndex* const index = free_indexes_.back();
    free_indexes_.pop_back();
    return *index;
  }
  /// `index` is empty.
  void give_back(FrameIndex& index) { free_indexes_.push_back(&index); }
  void release(uint16_t number) {
    --held_[holders_.remove(frames_[number - 1u].holder)];
    free_.push_back(number);
  }
  bool full() const { return free_.empty(); }
  uint32_t used() const { return static_cast<uint32_t>(frames_.size() - free_.size()); }

 private:
  struct Frames {
    uint32_t count;
  };
  struct Frame {
    uint16_t length = 0;
    uint16_t holder = 0;  // its number
  };
  FramePool(Frames frames, uint64_t seed)
      : bytes_(new std::byte[std::size_t{frames.count} * kFrameBytes]),
        frames_(frames.count),
        free_(frames.count),
        // Zeroed pages cost nothing until they are touched.
        indexes_(static_cast<FrameIndex*>(std::calloc(std::max(frames.count, 1u), sizeof(FrameIndex)))),
        free_indexes_(frames.count),
        held_(kMaxUsers),
        holders_(frames.count, seed) {
    if (indexes_ == nullptr) throw std::bad_alloc();
    for (uint32_t i = 0; i < frames.count; ++i) {
      free_[i] = static_cast<uint16_t>(frames.count - i);
      free_indexes_[i] = indexes_.get() + (frames.count - 1 - i);
    }
  }
  std::byte* place(uint16_t number) const { return bytes_.get() + (number - 1u) * kFrameBytes; }
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<Frame> frames_;
  std::vector<uint16_t> free_;
  struct Free {
    void operator()(FrameIndex* indexes) const { std::free(indexes); }
  };
  std::unique_ptr<FrameIndex[], Free> indexes_;
  std::vector<FrameIndex*> free_indexes_;
  std::vector<uint32_t> held_;  // by user
  FrameHolders holders_;
};

}  // namespace uroce::transport
