// An output port: a queue of finite size in front of a link with a rate and a propagation delay.
//
// The queue is first in, first out, so that the moment a frame leaves is known when it enters. One event per frame,
// its arrival, is all that happens; frames that have left are counted out when somebody looks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "tests/sim/impairments.h"
#include "tests/sim/trace.h"

namespace uroce::sim {

/// Takes frames at the far end of a link.
class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual void receive(FramePtr frame) = 0;
};

/// RED-style marking of ECN-capable frames by the bytes that are queued in front of them.
struct EcnMarking {
  uint64_t kmin = 0;  ///< bytes; none is marked up to here
  uint64_t kmax = 0;  ///< bytes; all are marked beyond, 0: marking is off
  double pmax = 1;    ///< chance at kmax
};

struct PortOptions {
  std::string name{};
  double gbps = 100;
  Picos delay{0};                     ///< propagation
  uint64_t queue_bytes = UINT64_MAX;  ///< tail drop beyond; the frame that is being sent counts as queued
  EcnMarking ecn{};
  ImpairmentRates impairments{};
  uint64_t seed = 1;
};

struct PortCounters {
  uint64_t frames = 0;  ///< taken into the queue
  uint64_t bytes = 0;   ///< of those
  uint64_t queue_drops = 0;
  uint64_t lost = 0;  ///< on the link
  uint64_t marked = 0;
  uint64_t max_queued = 0;  ///< bytes
};

/// Sets CE in a frame whose sender can do ECN, with the IPv4 checksum. False: it is not ECN-capable.
bool mark_congestion(std::span<std::byte> frame);

class Port : public Receiver, private Handler, private Reorderer::Exit {
 public:
  Port(EventQueue& events, const PortOptions& options, Receiver& far_end);

  /// Into the queue, or dropped.
  void receive(FramePtr frame) override;
  /// Bytes and frames that have not left entirely.
  uint64_t queued_bytes();
  std::size_t queued_frames();
  /// When the oldest of them will have left. There is one.
  Picos next_departure() const { return leaving_.front().at; }
  /// Time that a frame of `bytes` takes on the link, with its overhead.
  Picos time_of(uint32_t bytes) const;

  void set_trace(const Trace* trace) { trace_ = trace; }

  const PortOptions& options() const { return options_; }
  const PortCounters& counters() const { return counters_; }

 private:
  struct Leaving {
    Picos at;
    uint32_t bytes;
  };
  void on_event(uint64_t) override;
  void leave(FramePtr frame) override { far_end_.receive(std::move(frame)); }
  void count_out();
  bool marks_at(uint64_t queued);
  void say(std::string_view what, const FabricFrame& frame) const {
    if (trace_ != nullptr) trace_->line(options_.name, what, frame);
  }

  EventQueue& events_;
  PortOptions options_;
  Receiver& far_end_;
  double picos_per_byte_;
  LossModel loss_;
  Random random_;
  std::optional<Reorderer> reorderer_;
  PortCounters counters_;
  const Trace* trace_ = nullptr;
  double busy_until_ = 0;  ///< ps; whole ones would add up to another rate
  uint64_t queued_ = 0;
  std::deque<Leaving> leaving_;
  std::deque<FramePtr> in_flight_;
};

}  // namespace uroce::sim
