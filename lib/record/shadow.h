// A ring of shared memory as a taped engine sees it: a private copy, which changes only when the tape says so. So the
// engine's reads need no record of their own, and read the same in a replay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "queues/doorbell.h"
#include "queues/ring.h"
#include "record/blocks.h"
#include "record/structures.h"

namespace uroce::record {

/// Zeroed and aligned to cache lines.
class Lines {
 public:
  Lines() = default;
  explicit Lines(std::size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})), Free{}) {
    std::memset(memory_.get(), 0, bytes);
  }
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

enum class Slots : uint8_t { send, recv };

class ShadowRing {
 public:
  ShadowRing() = default;
  /// `real` may have no header: in a replay there is none, and neither has a queue pair without this ring.
  ShadowRing(const RingRecord& from, queues::RingPlace real, Slots slots) : real_(real), slots_(slots) {
    if (from.entries == 0) return;
    memory_ = Lines(queues::ring_bytes(from.entries, from.stride));
    place_ = queues::RingPlace::at(memory_.data(), from.entries, from.stride);
    place_.header->producer.store(from.producer, std::memory_order_relaxed);
    place_.header->consumer.store(from.consumer, std::memory_order_relaxed);
    // Slots before the producer's index that are still filled come with the first take().
    taken_ = from.next;
    consumer_ = from.consumer;
  }

  queues::RingPlace place() const { return place_; }
  queues::RingPlace real() const { return real_; }
  bool exists() const { return place_.header != nullptr; }

  /// The real ring as `next` has read it.
  static RingRecord describe(queues::RingPlace real, uint32_t next) {
    if (real.header == nullptr || real.entries == 0) return {};
    // Nothing counts as posted before take().
    return {.entries = real.entries,
            .stride = real.stride,
            .next = next,
            .producer = next,
            .consumer = real.header->consumer.load(std::memory_order_acquire)};
  }

  /// Has the application posted what take() did not see?
  bool has_new() const {
    return real_.header != nullptr && real_.header->producer.load(std::memory_order_acquire) != taken_;
  }
  /// All that it has posted since, of which the copy has nothing yet: copy_slots(), and then publish_producer().
  SlotsRecord take(uint32_t object) {
    const uint32_t producer = real_.header->producer.load(std::memory_order_acquire);
    const uint32_t count = std::min(producer - taken_, place_.entries);
    taken_ = producer;
    return {.object = object, .producer = producer, .first = producer - count, .slots = count};
  }
  /// The most bytes of the record of a slot.
  std::size_t most_of_slot() const { return sizeof(uint16_t) + place_.stride; }
  /// Copies these slots, each of which is read once. Also their records to `to`, and returns the end of those; nullptr:
  /// none.
  std::byte* copy_slots(uint32_t first, uint32_t end, std::byte* to) const {
    return slots_ == Slots::send ? copy_slots<queues::SendWqe>(first, end, to)
                                 : copy_slots<queues::RecvWqe>(first, end, to);
  }
  /// The bytes of slot `index` that the application may have written, by the copy.
  uint16_t length_of(uint32_t index) const {
    const std::byte* slot = place_.slot(index);
    std::size_t bytes = 0;
    if (slots_ == Slots::send) {
      const auto& wqe = *reinterpret_cast<const queues::SendWqe*>(slot);
      const std::size_t sges = std::max<std::size_t>(wqe.num_sge, 1) * sizeof(Sge);
      bytes = sizeof wqe + std::max<std::size_t>(sges, wqe.inline_length);
    } else {
      const auto& wqe = *reinterpret_cast<const queues::RecvWqe*>(slot);
      bytes = sizeof wqe + std::clamp<std::size_t>(wqe.num_sge, 1, kMaxSge) * sizeof(Sge);
    }
    return static_cast<uint16_t>(std::min<std::size_t>(bytes, place_.stride));
  }
  /// A replay's: the same from a record. False: it does not fit.
  bool put(uint32_t index, std::span<const std::byte> slot) {
    if (slot.size() > place_.stride) return false;
    std::memcpy(place_.slot(index), slot.data(), slot.size());
    return true;
  }
  void publish_producer(uint32_t producer) { place_.header->producer.store(producer, std::memory_order_relaxed); }

  /// Tells the application which slots are free.
  void give() {
    if (real_.header == nullptr) return;
    const uint32_t consumer = place_.header->consumer.load(std::memory_order_relaxed);
    if (consumer == consumer_) return;
    consumer_ = consumer;
    real_.header->consumer.store(consumer, std::memory_order_release);
  }
  /// Tells it whether posts need a doorbell. True: they do from now on, and did not before.
  bool give_wants_doorbell() {
    if (real_.header == nullptr) return false;
    const uint32_t wants = place_.header->wants_doorbell.load(std::memory_order_relaxed);
    if (wants == wants_) return false;
    wants_ = wants;
    real_.header->wants_doorbell.store(wants, std::memory_order_seq_cst);
    return wants != 0;
  }
  bool wants_doorbell() const { return wants_ != 0; }
  /// Is all that was taken consumed?
  bool drained() const { return place_.header == nullptr || consumer_ == taken_; }

 private:
  // Has it one scatter entry, or room for one, and nothing more?
  static bool is_usual(const queues::SendWqe& wqe) { return wqe.num_sge <= 1 && wqe.inline_length == 0; }
  static bool is_usual(const queues::RecvWqe& wqe) { return wqe.num_sge <= 1; }

  template <class Wqe>
  std::byte* copy_slots(uint32_t first, uint32_t end, std::byte* to) const {
    constexpr uint16_t kUsual = sizeof(Wqe) + sizeof(Sge);
    // Copied: for all that the compiler knows, the writes below may change these.
    const queues::RingPlace real = real_;
    const queues::RingPlace place = place_;
    const bool has_room = place.stride >= kUsual;
    for (uint32_t index = first; index != end; ++index) {
      const std::byte* const from = real.slot(index);
      std::byte* const copy = place.slot(index);
      if (to == nullptr || !has_room) [[unlikely]] {
        to = copy_unusual<Wqe>(index, to, true);
        continue;
      }
      std::byte* const record = to + sizeof kUsual;
      copy_blocks<sizeof(Wqe)>(copy, record, from);
      if (!is_usual(*reinterpret_cast<const Wqe*>(copy))) [[unlikely]] {
        to = copy_unusual<Wqe>(index, to, false);
        continue;
      }
      copy_blocks<sizeof(Sge)>(copy + sizeof(Wqe), record + sizeof(Wqe), from + sizeof(Wqe));
      std::memcpy(to, &kUsual, sizeof kUsual);
      to = record + kUsual;
    }
    return to;
  }
  // `begins`: the copy has no part of it yet.
  template <class Wqe>
  [[gnu::noinline]] std::byte* copy_unusual(uint32_t index, std::byte* to, bool begins) const {
    const std::byte* const from = real_.slot(index);
    std::byte* const copy = place_.slot(index);
    if (begins) std::memcpy(copy, from, sizeof(Wqe));
    const uint16_t length = length_of(index);
    std::memcpy(copy + sizeof(Wqe), from + sizeof(Wqe), length - sizeof(Wqe));
    if (to == nullptr) return nullptr;
    std::memcpy(to, &length, sizeof length);
    std::memcpy(to + sizeof length, copy, length);
    return to + sizeof length + length;
  }

  queues::RingPlace real_{};
  queues::RingPlace place_{};
  Slots slots_ = Slots::send;
  uint32_t taken_ = 0;     // the producer's index, as copied
  uint32_t consumer_ = 0;  // as the application was told
  uint32_t wants_ = 0;
  Lines memory_;
};

/// A taped engine has this in place of a queue pair's shared memory. The queue pair's doorbell flag is its first
/// member, by which it is found.
struct ShadowQp {
  queues::DoorbellFlag flag{};
  ShadowRing sq;
  ShadowRing rq;
  // The queue pair's own.
  queues::RingPlace real_sq{};
  queues::RingPlace real_rq{};
  queues::DoorbellFlag* real_flag = nullptr;
  bool listed = false;  ///< among those that are looked at after a call
};

struct ShadowSrq {
  queues::SrqHeader header{};
  ShadowRing ring;
  queues::SrqHeader* real_header = nullptr;
  uint32_t limit = 0;  ///< as taken
  uint32_t users = 0;
  bool attached = false;  ///< Engine::attach_srq()
};

}  // namespace uroce::record
