// How many frames of a pool each user holds with each of its peers. Memory is fixed; nothing is allocated after
// construction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <uroce/types.h>

#include "base/random.h"

namespace uroce::transport {

/// For whom a frame is kept: the user of its queue pair, and the address that it came from. Both count, so that
/// neither a peer nor another user can take the room of this pair.
struct FrameHolder {
  uint16_t user = 0;
  Gid peer{};
  friend bool operator==(const FrameHolder&, const FrameHolder&) = default;
};

/// A hash table of those that hold frames, with entries from a free list.
class FrameHolders {
 public:
  /// At most `frames` frames are held at once, 0..65535. With a `seed` that nobody knows, peers cannot choose addresses
  /// that are slow to find.
  FrameHolders(uint32_t frames, uint64_t seed)
      : seed_(seed), heads_(std::bit_ceil(std::max(frames, 1u))), entries_(frames + 1) {
    for (uint32_t i = 1; i <= frames; ++i) entries_[i].next = static_cast<uint16_t>(i < frames ? i + 1 : 0);
    free_ = frames > 0 ? 1 : 0;
  }
  uint32_t held_by(const FrameHolder& holder) const { return entries_[find(holder)].held; }
  /// `holder` holds one frame more. Returns its number, for remove().
  uint16_t add(const FrameHolder& holder) {
    uint16_t number = find(holder);
    if (number == 0) {
      number = std::exchange(free_, entries_[free_].next);
      uint16_t& head = heads_[bucket(holder)];
      entries_[number] = {.holder = holder, .held = 0, .next = std::exchange(head, number)};
    }
    ++entries_[number].held;
    return number;
  }
  /// One frame less. Returns the holder's user.
  uint16_t remove(uint16_t number) {
    Entry& entry = entries_[number];
    if (--entry.held == 0) {
      uint16_t* at = &heads_[bucket(entry.holder)];
      while (*at != number) at = &entries_[*at].next;
      *at = entry.next;
      entry.next = std::exchange(free_, number);
    }
    return entry.holder.user;
  }

 private:
  struct Entry {
    FrameHolder holder{};
    uint16_t held = 0;
    uint16_t next = 0;  // in its bucket or in the free list; 0 ends it
  };
  std::size_t bucket(const FrameHolder& holder) const {
    uint64_t halves[2];
    std::memcpy(halves, holder.peer.bytes.data(), sizeof halves);
    const uint64_t mixed = Random(Random(seed_ ^ halves[0]).next() ^ halves[1]).next();
    return Random(mixed ^ holder.user).next() & (heads_.size() - 1);
  }
  // 0 when it holds nothing.
  uint16_t find(const FrameHolder& holder) const {
    uint16_t at = heads_[bucket(holder)];
    while (at != 0 && entries_[at].holder != holder) at = entries_[at].next;
    return at;
  }

  uint64_t seed_;
  std::vector<uint16_t> heads_;
  std::vector<Entry> entries_;  // from 1 on; entry 0 holds nothing
  uint16_t free_ = 0;
};

}  // namespace uroce::transport
