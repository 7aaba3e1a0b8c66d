// Rules at work on the frames of one engine and device. Time is an argument; the caller has the port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counter.h"
#include "base/time.h"
#include "faults/held_frames.h"
#include "faults/responders.h"
#include "faults/rule_set.h"
#include "wire/packet.h"

namespace uroce::faults {

struct FaultCounters {
  Counter injected;
  Counter overflow;  ///< frames that were lost because no more could be kept
};

/// The engine's queue pairs, as far as rules must know them.
class QpView {
 public:
  /// The queue pair that sent the packet, of which no header tells: the peer's of one that is here, or one that is
  /// here. nullopt: it is not the engine's. Engine's thread.
  virtual std::optional<uint32_t> sender_of(Way way, const wire::Packet& packet) = 0;

 protected:
  ~QpView() = default;
};

/// Calls on the engine's thread, but for the constructor.
class FrameFaults {
 public:
  /// `longest`: bytes of a frame. `counters` and `qps` outlive it; without `qps` no NAK is sent and no queue pair ends.
  FrameFaults(const Rules& rules, std::string_view device, std::size_t longest, FaultCounters& counters,
              QpView* qps = nullptr);

  /// Frames that were kept go on under these rules.
  void succeed(FrameFaults& before) {
    std::swap(held_, before.held_);
    std::swap(ended_, before.ended_);
    if (answers_) std::swap(responders_, before.responders_);
  }
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
  /// The number of the last rule that has acted on the frame of the last take(); 0: none has.
  uint32_t acted() const { return acted_; }
  /// How long the engine is to stand still for the frames since the last call.
  Nanos take_stall() { return std::exchange(stall_, Nanos(0)); }
  /// The queue pairs here that are to end in error. Until they do, their frames are lost.
  std::vector<uint32_t> take_ended() { return std::exchange(ended_, {}); }
  /// The rules have ended: all kept frames are due.
  void end() { held_->hurry(); }

 private:
  struct Fate {
    bool lost = false;
    bool doubled = false;
    uint32_t overtakers = 0;
    Nanos due{0};
    ActiveRule* keeper = nullptr;  ///< the rule that has the frame kept
    Responder* responder = nullptr;
    uint32_t asker = 0;  ///< the queue pair that gets the responder's answers
  };
  /// Whether the rule can do its work on a frame: what it cannot change, it neither chooses nor counts.
  bool can_act(const Rule& rule, Way way, const wire::Packet& packet, const Fate& fate) const;
  void apply(ActiveRule& rule, uint64_t draw, Way way, const wire::Packet& packet, std::span<std::byte> frame,
             Fate& fate);
  /// Notes what the frame tells of responders. Returns the one that a request is for, where a NAK may answer it,
  /// and the queue pair that gets the answer.
  Responder* follow(Way way, const wire::Packet& packet, std::span<const std::byte> frame, Nanos now, uint32_t& asker);
  /// The queue pair that the frame comes from, or goes to, on this side.
  std::optional<uint32_t> own_qp(Way way, const wire::Packet& packet) const;
  void answer(const ActiveRule& rule, Way way, const wire::Packet& packet, Fate& fate);
  void keep(bool kept, const Fate& fate);

  Rules rules_;
  FaultCounters& counters_;
  QpView* const qps_;
  Nanos stall_{0};
  uint32_t acted_ = 0;
  std::vector<uint32_t> ended_;
  bool answers_ = false;  // there are rules that send NAKs
  Responders responders_;
  std::unique_ptr<HeldFrames> held_;
};

}  // namespace uroce::faults
