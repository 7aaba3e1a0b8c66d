// Programs poll in a closed loop, as if an adapter worked beside them. Here the engine that works for them may need the
// very core they poll on.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace uroce::dropin {

/// Gives the core away when polls keep finding nothing. Where there are cores enough this is a short system call after
/// a few microseconds of silence, and returns at once. Any thread: they share one backoff.
class PollBackoff {
 public:
  void polled(bool found) {
    // Not exact when threads meet here, and need not be.
    const uint32_t empty = found ? 0 : empty_polls_.load(std::memory_order_relaxed) + 1;
    empty_polls_.store(std::min(empty, kEmptyPolls), std::memory_order_relaxed);
    if (empty >= kEmptyPolls) sched_yield();
  }

 private:
  static constexpr uint32_t kEmptyPolls = 64;
  std::atomic<uint32_t> empty_polls_{0};
};

}  // namespace uroce::dropin
