// The application's end of a completion queue: polls the engines' rings in turn, without locks or allocation. One
// thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/types.h>
#include <uroce/verbs/completion.h>

#include "queues/place.h"

namespace uroce::queues {

/// Arms the completion queue: the next completion of the kind `wanted` raises an event. A request for any completion
/// stays in force until it fires; a later request for solicited ones does not replace it (C11-32). Any thread.
inline void arm(CqHeader& header, Arm wanted) {
  const auto value = static_cast<uint32_t>(wanted);
  uint32_t current = header.arm.load(std::memory_order_relaxed);
  while (current < value && !header.arm.compare_exchange_weak(current, value, std::memory_order_seq_cst)) {
  }
  // Orders arming before the caller's next poll(): either that poll sees a new completion, or its engine sees the
  // arming.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// Takes what arm() asked for: an engine to raise the event, the program to withdraw the request. False: nothing was
/// asked for, or another took it. Any thread.
inline bool disarm(CqHeader& header) {
  constexpr auto kNone = static_cast<uint32_t>(Arm::none);
  return header.arm.exchange(kNone, std::memory_order_acq_rel) != kNone;
}

class CqPoller {
 public:
  explicit CqPoller(std::vector<RingConsumer> rings) : rings_(std::move(rings)) {}
  /// Polls a queue with one ring per engine.
  CqPoller(const CqPlace& place, uint32_t engines) {
    rings_.reserve(engines);
    for (uint32_t engine = 0; engine < engines; ++engine) rings_.emplace_back(place.ring(engine));
  }

  /// Starts after the ring that was polled last, so that a busy engine does not starve the completions of others.
  std::size_t poll(std::span<Completion> out) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < rings_.size() && taken < out.size(); ++i) {
      next_ = next_ + 1 < rings_.size() ? next_ + 1 : 0;
      taken += drain(rings_[next_], out.subspan(taken));
    }
    return taken;
  }

  /// Whether poll() would return a completion.
  bool ready() {
    return std::ranges::any_of(rings_, [](RingConsumer& ring) { return ring.available() != 0; });
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
    out.flow_tag = cqe.flow_tag;
    out.vlan_tag = cqe.vlan_tag;
  }

  std::vector<RingConsumer> rings_;  // by engine; the size never changes
  std::size_t next_ = 0;
};

}  // namespace uroce::queues
