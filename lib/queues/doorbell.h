// Doorbells tell an engine which send queues have work, so that it need not poll all of them.
//
// A doorbell ring is bounded and has many posting threads and one engine. A queue whose `rung` flag is set is not
// entered again, so that a ring with a slot per QP never overflows in correct use. A wrong entry by a hostile writer
// costs the engine one failed look-up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::queues {

struct DoorbellHeader {
  alignas(64) std::atomic<uint32_t> head;      ///< next slot to claim, free-running; posters write it
  alignas(64) std::atomic<uint32_t> sleeping;  ///< 1 while the engine sleeps and must be woken; the engine writes it
};
static_assert(sizeof(DoorbellHeader) == 128);

/// One for each send queue.
struct DoorbellFlag {
  alignas(64) std::atomic<uint32_t> rung;
};

constexpr std::size_t doorbell_bytes(uint32_t entries) {
  return sizeof(DoorbellHeader) + std::size_t{entries} * sizeof(std::atomic<uint32_t>);
}

/// The posting side. Several threads may use one.
class DoorbellPoster {
 public:
  DoorbellPoster() = default;
  /// `memory`: doorbell_bytes(entries) zeroed bytes, 64-byte aligned; `entries` a power of two.
  DoorbellPoster(std::byte* memory, uint32_t entries)
      : header_(reinterpret_cast<DoorbellHeader*>(memory)),
        slots_(reinterpret_cast<std::atomic<uint32_t>*>(memory + sizeof(DoorbellHeader))),
        mask_(entries - 1) {}

  /// Rings the doorbell for `token` (not 0). Returns true when the engine sleeps and the caller must wake it.
  bool ring(DoorbellFlag& flag, uint32_t token) {
    // seq_cst pairs with the engine, which clears the flag and then reads the queue, or sets `sleeping` and then looks
    // for doorbells. One of the two sides always sees the other's store.
    if (flag.rung.exchange(1, std::memory_order_seq_cst) != 0) return false;
    const uint32_t at = header_->head.fetch_add(1, std::memory_order_relaxed);
    slots_[at & mask_].store(token, std::memory_order_seq_cst);
    return header_->sleeping.load(std::memory_order_seq_cst) != 0;
  }

 private:
  DoorbellHeader* header_ = nullptr;
  std::atomic<uint32_t>* slots_ = nullptr;
  uint32_t mask_ = 0;
};

/// The engine's side.
class DoorbellReader {
 public:
  DoorbellReader() = default;
  /// `position`: what the reader before this one returned; 0 for the first.
  DoorbellReader(std::byte* memory, uint32_t entries, uint32_t position = 0)
      : header_(reinterpret_cast<DoorbellHeader*>(memory)),
        slots_(reinterpret_cast<std::atomic<uint32_t>*>(memory + sizeof(DoorbellHeader))),
        mask_(entries - 1),
        tail_(position) {}

  /// The next token, or 0. The caller must clear that queue's flag before it reads the queue. It must take at most as
  /// many tokens in a row as the ring has entries, because a hostile poster refills slots as fast as they are read.
  uint32_t take() {
    std::atomic<uint32_t>& slot = slots_[tail_ & mask_];
    const uint32_t token = slot.load(std::memory_order_acquire);
    if (token == 0) return 0;
    slot.store(0, std::memory_order_relaxed);
    ++tail_;
    return token;
  }
  /// Clears the flag, so that the queue can be entered again; returns whether it was set. A read-modify-write, so that
  /// it reads from the last ring() that found the flag set. The caller's next read of the queue then sees all that was
  /// posted before that ring().
  static bool clear(DoorbellFlag& flag) { return flag.rung.exchange(0, std::memory_order_seq_cst) != 0; }
  bool empty() const { return slots_[tail_ & mask_].load(std::memory_order_seq_cst) == 0; }
  /// Is there one token, with no other behind it?
  bool holds_one() const { return !empty() && slots_[(tail_ + 1) & mask_].load(std::memory_order_relaxed) == 0; }
  /// Where another reader of the ring goes on.
  uint32_t position() const { return tail_; }
  void set_sleeping(bool sleeping) { header_->sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst); }

 private:
  DoorbellHeader* header_ = nullptr;
  std::atomic<uint32_t>* slots_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t tail_ = 0;
};

}  // namespace uroce::queues
