// Programs poll in a closed loop, because an adapter works in parallel. Here an engine does the work, and it may need
// the core on which they poll.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace uroce::dropin {

/// Yields the core after a number of empty polls. When other cores are idle, the system call returns at once. Any
/// thread; all share one count.
class PollBackoff {
 public:
  /// After an empty poll. True when it has yielded: completions may have come meanwhile, so the caller polls again. A
  /// program that is told of an empty queue goes on to ask for events, and may end a connection whose last message
  /// waits in the queue.
  bool yielded_after_empty() {
    // Two threads may lose an increment, which does no harm.
    const uint32_t empty = empty_polls_.load(std::memory_order_relaxed) + 1;
    empty_polls_.store(std::min(empty, kEmptyPolls), std::memory_order_relaxed);
    if (empty < kEmptyPolls) return false;
    sched_yield();
    return true;
  }
  void found() { empty_polls_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kEmptyPolls = 64;
  std::atomic<uint32_t> empty_polls_{0};
};

}  // namespace uroce::dropin
