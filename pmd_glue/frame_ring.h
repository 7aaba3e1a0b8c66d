// A ring of frames between a worker and the service thread: fixed slots, one producer, one consumer. Bytes are copied
// once in and once out.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace uroce::glue {

class FrameRing {
 public:
  /// Allocates all memory. `slots` is rounded up to a power of two.
  FrameRing(uint32_t slots, uint32_t max_frame)
      : mask_(std::bit_ceil(slots) - 1),
        max_frame_(max_frame),
        lengths_(std::make_unique<uint32_t[]>(mask_ + 1)),
        bytes_(std::make_unique<std::byte[]>(std::size_t{mask_ + 1} * max_frame)) {}

  /// Producer only. False when the ring is full or the frame too large.
  bool push(std::span<const std::byte> frame) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (frame.size() > max_frame_ || head - tail_.load(std::memory_order_acquire) > mask_) return false;
    std::memcpy(slot(head), frame.data(), frame.size());
    lengths_[head & mask_] = static_cast<uint32_t>(frame.size());
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  /// Consumer only: the oldest frame, valid until pop(); empty when there is none.
  std::span<const std::byte> front() const {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return {};
    return {slot(tail), lengths_[tail & mask_]};
  }
  /// Consumer only, after front() gave a frame.
  void pop() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  /// Either side; a snapshot.
  bool empty() const { return tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_seq_cst); }

 private:
  std::byte* slot(uint32_t index) const { return bytes_.get() + std::size_t{index & mask_} * max_frame_; }

  const uint32_t mask_;
  const uint32_t max_frame_;
  const std::unique_ptr<uint32_t[]> lengths_;
  const std::unique_ptr<std::byte[]> bytes_;
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
};

}  // namespace uroce::glue
