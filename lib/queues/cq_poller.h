// The application's end of a completion queue: goes round the engines' rings. No locks, no allocation. One thread
// at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/types.h>
#include <uroce/verbs.h>

#include "queues/place.h"

namespace uroce::queues {

/// The next completion that `wanted` names raises an event. A request for any completion stands until it fires: one for
/// solicited ones only does not weaken it (C11-32). Any thread.
inline void arm(CqHeader& header, Arm wanted) {
  const auto value = static_cast<uint32_t>(wanted);
  uint32_t current = header.arm.load(std::memory_order_relaxed);
  while (current < value && !header.arm.compare_exchange_weak(current, value, std::memory_order_seq_cst)) {
  }
  // Before the caller's next poll(): of arming here and completing there, one sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

class CqPoller {
 public:
  explicit CqPoller(std::vector<RingConsumer> rings) : rings_(std::move(rings)) {}
  /// Of a queue with rings for `engines` engines.
  CqPoller(const CqPlace& place, uint32_t engines) {
    rings_.reserve(engines);
    for (uint32_t engine = 0; engine < engines; ++engine) rings_.emplace_back(place.ring(engine));
  }

  /// Starts after the ring that was served last, so that a busy engine does not starve the others' completions.
  std::size_t poll(std::span<Completion> out) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < rings_.size() && taken < out.size(); ++i) {
      next_ = next_ + 1 < rings_.size() ? next_ + 1 : 0;
      taken += drain(rings_[next_], out.subspan(taken));
    }
    return taken;
  }

 private:
  static std::size_t drain(RingConsumer& ring, std::span<Completion> out) {
    const auto count = static_cast<uint32_t>(std::min<std::size_t>(ring.available(), out.size()));
    for (uint32_t i = 0; i < count; ++i) {
      convert(*reinterpret_cast<const Cqe*>(ring.slot(i)), out[i]);
    }
    if (count != 0) ring.consume(count);
    return count;
  }
  static void convert(const Cqe& cqe, Completion& out) {
    out.wr_id = cqe.wr_id;
    out.status = static_cast<WcStatus>(cqe.status);
    out.opcode = static_cast<WcOpcode>(cqe.opcode);
    out.byte_len = cqe.byte_len;
    out.imm_or_key = cqe.imm_or_key;
    out.qpn = cqe.qpn;
    out.src_qpn = cqe.src_qpn;
    out.flags = WcFlags::from_bits(cqe.flags);
    out.vendor_error = cqe.vendor_error;
    out.timestamp_ns = cqe.timestamp_ns;
  }

  std::vector<RingConsumer> rings_;  // by engine; never changes size
  std::size_t next_ = 0;
};

}  // namespace uroce::queues
