// The ring into which an engine's port queue copies captured frames. Its worker writes, and never waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "message/capture_ring.h"

struct rte_mbuf;

namespace uroce::glue {

/// Fills in the IP checksum of `bytes`, a copy of `sent`, where the card fills it in later.
void complete_ip_checksum(const rte_mbuf& sent, std::byte* bytes);

class FrameTap {
 public:
  /// `ring`: kCaptureStride bytes that are zero and outlive this, shared with the reader.
  explicit FrameTap(std::byte* ring)
      : head_(*reinterpret_cast<message::CaptureRing*>(ring)), records_(ring + message::kCaptureHeader) {}

  /// Sets the time of the current burst.
  void set_time(Nanos now) { now_ = now; }
  /// Copies a whole frame with all its segments. `fault_rule`: see CaptureRecord.
  void add(const rte_mbuf& frame, bool outbound, uint32_t fault_rule = 0);

 private:
  std::byte* at(uint64_t position) const { return records_ + (position & (message::kCaptureBytes - 1)); }

  message::CaptureRing& head_;
  std::byte* const records_;
  uint64_t written_ = 0;  // head_.written is its mirror
  uint64_t dropped_ = 0;
  Nanos now_{0};
};

}  // namespace uroce::glue
