// Rules at work on the frames of one engine and device. Time is an argument; the caller has the port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/counter.h"
#include "base/time.h"
#include "faults/held_frames.h"
#include "faults/rule_set.h"
#include "wire/packet.h"

namespace uroce::faults {

struct FaultCounters {
  Counter injected;
  Counter overflow;  ///< frames that were lost because no more could be kept
};

/// Calls on the engine's thread, but for the constructor.
class FrameFaults {
 public:
  /// `longest`: bytes of a frame. `counters` outlives it.
  FrameFaults(const Rules& rules, std::string_view device, std::size_t longest, FaultCounters& counters);

  /// Frames that were kept go on under these rules.
  void succeed(FrameFaults& before) { std::swap(held_, before.held_); }
  /// Asks the rules about a frame of RoCE, and may change its bytes. True: it goes on now. False: it is lost, or kept
  /// for release(). Other frames go on.
  bool take(Way way, std::span<std::byte> frame, Nanos now);
  /// Calls `give` with each kept frame that is due, until it returns false.
  template <class Give>
  void release(Way way, Nanos now, Give give) {
    held_->release(way, now, give);
  }
  /// When the next kept frame is due; kNever for none.
  Nanos due() const { return held_->due(); }
  /// The rules have ended: all kept frames are due.
  void end() { held_->hurry(); }

 private:
  struct Fate {
    bool lost = false;
    bool doubled = false;
    uint32_t overtakers = 0;
    Nanos due{0};
    ActiveRule* keeper = nullptr;  ///< the rule that has the frame kept
  };
  void apply(ActiveRule& rule, uint64_t draw, const wire::Packet& packet, std::span<std::byte> frame, Fate& fate) const;
  void keep(bool kept, const Fate& fate);

  Rules rules_;
  FaultCounters& counters_;
  std::unique_ptr<HeldFrames> held_;
};

}  // namespace uroce::faults
