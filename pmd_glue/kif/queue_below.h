// Tells a full queue below a packet socket from a filter that drops frames.
//
// The kernel reports both as ENOBUFS (net_xmit_errno() of packet_snd()), and has dropped the frames in both cases. A
// full queue takes them when some of the socket's frames have left it. A filter drops them again.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace uroce::glue::kif {

class QueueBelow {
 public:
  /// Frames of one socket in a full queue leave it within this time, or the next ones are dropped.
  static constexpr Nanos kPatience = std::chrono::milliseconds(10);

  /// The kernel dropped frames while `under_way` bytes of the socket were below it. True: keep the frames, and send
  /// them again.
  bool keep_dropped(uint32_t under_way, Nanos now) {
    if (!waits_ || under_way < under_way_) since_ = now;
    under_way_ = under_way;
    waits_ = under_way != 0 && now - since_ < kPatience;
    return waits_;
  }
  bool waits() const { return waits_; }
  /// While frames wait: whether nothing has left since, so that sending them again is in vain.
  bool full(uint32_t under_way, Nanos now) const {
    return waits_ && under_way >= under_way_ && now - since_ < kPatience;
  }
  /// The kernel took frames.
  void passed() { waits_ = false; }

 private:
  bool waits_ = false;
  uint32_t under_way_ = 0;  ///< bytes, when frames were dropped last
  Nanos since_{0};          ///< when the first ones were dropped, or the queue was last seen to move
};

}  // namespace uroce::glue::kif
