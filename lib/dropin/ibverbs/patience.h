// Programs poll in a closed loop, as if an adapter worked beside them. Here the engine that works for them may need the
// very core they poll on.
#pragma once

#include <sched.h>

#include <cstdint>

namespace uroce::dropin {

/// Gives the core away when polls keep finding nothing. Where there are cores enough this is a short system call after
/// a few microseconds of silence, and returns at once.
class Patience {
 public:
  void polled(bool found) {
    empty_polls_ = found ? 0 : empty_polls_ + 1;
    if (empty_polls_ < kEmptyPolls) return;
    empty_polls_ = kEmptyPolls;
    sched_yield();
  }

 private:
  static constexpr uint32_t kEmptyPolls = 64;
  uint32_t empty_polls_ = 0;
};

}  // namespace uroce::dropin
