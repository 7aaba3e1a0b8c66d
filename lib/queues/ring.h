// The two ends of a ring in shared memory. Each end keeps its own index privately and only mirrors it outward;
// what it reads of the other end is clamped, so that a liar can lose its own entries and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queues/layout.h"

namespace uroce::queues {

/// Where a ring is and how large. The memory is not owned.
struct RingPlace {
  RingHeader* header = nullptr;  ///< the slots follow it
  uint32_t entries = 0;          ///< a power of two
  uint32_t stride = 0;           ///< bytes

  /// A ring at `memory`, which is 64-byte aligned and holds ring_bytes(entries, stride).
  static RingPlace at(std::byte* memory, uint32_t entries, uint32_t stride) {
    return {reinterpret_cast<RingHeader*>(memory), entries, stride};
  }
  std::byte* slot(uint32_t index) const {
    return reinterpret_cast<std::byte*>(header + 1) + std::size_t{index & (entries - 1)} * stride;
  }
};

/// The writing end. One thread at a time.
class RingProducer {
 public:
  RingProducer() = default;
  explicit RingProducer(RingPlace place) : place_(place) {}

  /// Slots free now, 0..entries.
  uint32_t room() {
    const uint32_t used = next_ - place_.header->consumer.load(std::memory_order_acquire);
    return used > place_.entries ? 0 : place_.entries - used;
  }
  /// The next slot to fill, `ahead` slots past those already published; check room() first.
  std::byte* slot(uint32_t ahead = 0) const { return place_.slot(next_ + ahead); }
  /// Makes `n` filled slots visible.
  void publish(uint32_t n) {
    next_ += n;
    place_.header->producer.store(next_, std::memory_order_release);
  }
  /// Slots published and not yet consumed, 0..entries; all, where the consumer's index makes no sense.
  uint32_t used() { return place_.entries - room(); }
  /// Goes on at `to`, an empty ring of the same stride, with what is not yet consumed. False, and nothing changes,
  /// where that does not fit. The consumer begins anew there.
  bool move(RingPlace to) {
    const uint32_t count = used();
    if (count > to.entries) return false;
    for (uint32_t i = 0; i < count; ++i) std::memcpy(to.slot(i), place_.slot(next_ - count + i), place_.stride);
    place_ = to;
    next_ = 0;
    publish(count);
    return true;
  }
  uint32_t next() const { return next_; }
  uint32_t entries() const { return place_.entries; }

 private:
  RingPlace place_{};
  uint32_t next_ = 0;
};

/// The reading end. One thread at a time.
class RingConsumer {
 public:
  RingConsumer() = default;
  explicit RingConsumer(RingPlace place) : place_(place) {}

  /// Filled slots not yet consumed, 0..entries.
  uint32_t available() const {
    return std::min(place_.header->producer.load(std::memory_order_acquire) - next_, place_.entries);
  }
  const std::byte* slot(uint32_t ahead = 0) const { return place_.slot(next_ + ahead); }
  /// Gives `n` slots back to the producer.
  void consume(uint32_t n) {
    next_ += n;
    place_.header->consumer.store(next_, std::memory_order_release);
  }
  /// Moves the private index only; mirror() tells the producer. For slots that stay in use a while.
  void advance(uint32_t n) { next_ += n; }
  void mirror(uint32_t index) { place_.header->consumer.store(index, std::memory_order_release); }
  uint32_t next() const { return next_; }
  uint32_t entries() const { return place_.entries; }
  uint32_t stride() const { return place_.stride; }

 private:
  RingPlace place_{};
  uint32_t next_ = 0;
};

}  // namespace uroce::queues
