// The two ends of a ring in shared memory. Each end keeps its own index in private memory and copies it to the shared
// header. It clamps the other end's index, so that a peer which writes wrong indices loses only its own entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queues/layout.h"

namespace uroce::queues {

/// Where a ring is, and its size. It does not own the memory.
struct RingPlace {
  RingHeader* header = nullptr;  ///< the slots follow it
  uint32_t entries = 0;          ///< a power of two
  uint32_t stride = 0;           ///< bytes

  /// A ring at `memory`, which must be 64-byte aligned and have ring_bytes(entries, stride) bytes.
  static RingPlace at(std::byte* memory, uint32_t entries, uint32_t stride) {
    return {reinterpret_cast<RingHeader*>(memory), entries, stride};
  }
  std::byte* slot(uint32_t index) const {
    return reinterpret_cast<std::byte*>(header + 1) + std::size_t{index & (entries - 1)} * stride;
  }
  /// Filled slots as both ends have told, 0..entries; for those who are neither.
  uint32_t filled() const {
    const uint32_t consumed = header->consumer.load(std::memory_order_acquire);
    return std::min(header->producer.load(std::memory_order_acquire) - consumed, entries);
  }
};

/// The writing end. One thread at a time.
class RingProducer {
 public:
  RingProducer() = default;
  /// `next`: the slots published before, by another producer of the ring.
  explicit RingProducer(RingPlace place, uint32_t next = 0) : place_(place), next_(next) {}
  /// Goes on at a ring to which the consumer has moved: see RingConsumer::move().
  static RingProducer at_moved(RingPlace place) {
    RingProducer producer(place);
    producer.next_ = place.header->producer.load(std::memory_order_acquire);
    return producer;
  }

  /// The number of free slots, 0..entries.
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
  /// The number of slots published and not yet consumed, 0..entries; `entries` when the consumer's index is invalid.
  uint32_t used() { return place_.entries - room(); }
  /// Moves to the ring `to`, which is empty and has the same stride, and copies the unconsumed slots there. Returns
  /// false and changes nothing when they do not fit. The consumer must start anew at `to`.
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
  /// `next`: the slots consumed before, by another consumer of the ring.
  explicit RingConsumer(RingPlace place, uint32_t next = 0) : place_(place), next_(next) {}

  /// The number of filled slots not yet consumed, 0..entries.
  uint32_t available() const {
    return std::min(place_.header->producer.load(std::memory_order_acquire) - next_, place_.entries);
  }
  const std::byte* slot(uint32_t ahead = 0) const { return place_.slot(next_ + ahead); }
  /// Moves to the ring `to`, which is empty and has the same stride, and copies the filled slots there. Returns false
  /// and changes nothing when they do not fit. The producer goes on at `to`; slots published in the old ring are lost.
  bool move(RingPlace to) {
    const uint32_t count = available();
    if (count > to.entries) return false;
    for (uint32_t i = 0; i < count; ++i) std::memcpy(to.slot(i), slot(i), place_.stride);
    to.header->producer.store(count, std::memory_order_release);
    place_ = to;
    next_ = 0;
    return true;
  }
  /// Gives `n` slots back to the producer.
  void consume(uint32_t n) {
    next_ += n;
    place_.header->consumer.store(next_, std::memory_order_release);
  }
  /// Moves only the private index; mirror() publishes it later. For slots that stay in use for a while.
  void advance(uint32_t n) { next_ += n; }
  void mirror(uint32_t index) { place_.header->consumer.store(index, std::memory_order_release); }
  /// The line that available() reads, to be prefetched.
  const void* producer_line() const { return place_.header; }
  const RingPlace& place() const { return place_; }
  uint32_t next() const { return next_; }
  uint32_t entries() const { return place_.entries; }
  uint32_t stride() const { return place_.stride; }

 private:
  RingPlace place_{};
  uint32_t next_ = 0;
};

}  // namespace uroce::queues
