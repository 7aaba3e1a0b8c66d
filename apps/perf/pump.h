// Runs the stack while this thread waits, and gives the core away when there is nothing to do.
#pragma once

#include <poll.h>
#include <sched.h>

#include <chrono>

#include "perf/host.h"

namespace uroce::perf {

class Pump {
 public:
  Pump(Host& host, IdlePolicy idle) : host_(host), idle_(idle), embedded_(host.embedded()) {}

  bool embedded() const { return embedded_; }

  /// Call it after each turn of a test's loop. `progressed`: the turn did something. `resting`: it waits only for a
  /// message of the peer, not for completions.
  void turn(bool progressed, bool resting) {
    if (embedded_) {
      if (!host_.poll() && !progressed) host_.idle(std::chrono::microseconds(200));
    } else if (!progressed) {
      yield(resting);
    }
  }

  /// Waits about a millisecond and runs the engines. For times when nothing is measured.
  void wait() {
    if (embedded_) host_.poll();
    ::poll(nullptr, 0, 1);
  }

 private:
  void yield(bool resting) const {
    if (resting) {
      ::poll(nullptr, 0, 1);  // leaves the core to the engines
    } else if (idle_ == IdlePolicy::busy) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      ::sched_yield();
    }
  }

  Host& host_;
  const IdlePolicy idle_;
  const bool embedded_;
};

}  // namespace uroce::perf
