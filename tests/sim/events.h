// Virtual time and what happens in it, in order: the discrete-event part of the fabric.
#pragma once

#include <chrono>
#include <cstdint>
#include <queue>
#include <ratio>
#include <vector>

#include "base/time.h"

namespace uroce::sim {

/// The fabric's time. A byte at 100 Gb/s takes 80 ps: nanoseconds would make every link a little too fast or slow.
using Picos = std::chrono::duration<int64_t, std::pico>;

/// Receiver of an event.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void on_event(uint64_t what) = 0;
};

/// Events at one moment happen in the order in which they were scheduled, so that a run is its seed.
class EventQueue {
 public:
  Picos now() const { return now_; }
  /// As engines are told the time: begun nanoseconds do not count.
  Nanos now_nanos() const { return std::chrono::duration_cast<Nanos>(now_); }

  /// `at` is not in the past. `handler` lives until then.
  void schedule(Picos at, Handler& handler, uint64_t what = 0) { events_.push({at, order_++, &handler, what}); }
  /// Lets everything happen that is due by `end`, which is then the time.
  void run_until(Picos end) {
    while (!events_.empty() && events_.top().at <= end) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      ++happened_;
      event.handler->on_event(event.what);
    }
    now_ = end;
  }
  uint64_t happened() const { return happened_; }

 private:
  struct Event {
    Picos at;
    uint64_t order;
    Handler* handler;
    uint64_t what;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  Picos now_{0};
  uint64_t order_ = 0;
  uint64_t happened_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace uroce::sim
