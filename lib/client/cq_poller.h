// The application's end of a completion queue: goes round the engines' rings. No locks, no allocation. One thread
// at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/types.h>
#include <uroce/verbs.h>

#include "queues/ring.h"

namespace uroce::client {

class CqPoller {
 public:
  explicit CqPoller(std::vector<queues::RingConsumer> rings) : rings_(std::move(rings)) {}

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
  static std::size_t drain(queues::RingConsumer& ring, std::span<Completion> out) {
    const auto count = static_cast<uint32_t>(std::min<std::size_t>(ring.available(), out.size()));
    for (uint32_t i = 0; i < count; ++i) {
      convert(*reinterpret_cast<const queues::Cqe*>(ring.slot(i)), out[i]);
    }
    if (count != 0) ring.consume(count);
    return count;
  }
  static void convert(const queues::Cqe& cqe, Completion& out) {
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

  std::vector<queues::RingConsumer> rings_;  // by engine; never changes size
  std::size_t next_ = 0;
};

}  // namespace uroce::client
