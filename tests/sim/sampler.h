// Looks at the fabric at regular times: how full queues are, and what was counted in each window of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/sim/fabric.h"

namespace uroce::sim {

/// The depth of one output queue over time.
class QueueSampler : private Handler {
 public:
  static constexpr Picos kInterval = std::chrono::microseconds(1);

  QueueSampler(EventQueue& events, Port& port, Picos begin) : events_(events), port_(port) {
    events.schedule(begin, *this);
  }
  const Port& port() const { return port_; }
  /// Bytes, one after each interval.
  const std::vector<uint32_t>& samples() const { return samples_; }

 private:
  void on_event(uint64_t) override {
    samples_.push_back(static_cast<uint32_t>(std::min<uint64_t>(port_.queued_bytes(), UINT32_MAX)));
    events_.schedule(events_.now() + kInterval, *this);
  }

  EventQueue& events_;
  Port& port_;
  std::vector<uint32_t> samples_;
};

/// Sums over all ports of switches, or all engines.
struct Totals {
  uint64_t queue_drops = 0;
  uint64_t lost = 0;
  uint64_t marked = 0;
  uint64_t timeouts = 0;
  uint64_t retransmitted = 0;
};

/// The totals at the end of each window.
class WindowSampler : private Handler {
 public:
  WindowSampler(Fabric& fabric, Picos begin, Picos window) : fabric_(fabric), window_(window) {
    fabric.events().schedule(begin, *this);
  }
  static Totals totals(Fabric& fabric);
  /// The first is from before the first window.
  const std::vector<Totals>& samples() const { return samples_; }

 private:
  void on_event(uint64_t) override {
    samples_.push_back(totals(fabric_));
    fabric_.events().schedule(fabric_.events().now() + window_, *this);
  }

  Fabric& fabric_;
  Picos window_;
  std::vector<Totals> samples_;
};

}  // namespace uroce::sim
