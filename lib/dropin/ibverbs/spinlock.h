// The lock of one queue. libibverbs promises posting and polling from any thread; the API is for one at a time.
#pragma once

#include <sched.h>

#include <atomic>

namespace uroce::dropin {

/// Held for the time of one post or poll. After a while of spinning it yields the core: on an overcommitted machine the
/// holder may be waiting for this very core.
class Spinlock {
 public:
  /// `needed` is false for queues that one thread uses (thread domains, single-threaded queues).
  explicit Spinlock(bool needed = true) : needed_(needed) {}

  void lock() {
    if (!needed_) return;
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries > kSpins) sched_yield();
        __builtin_ia32_pause();
      }
    }
  }
  /// False where a thread holds it, which may be this one.
  bool try_lock() { return !needed_ || !held_.exchange(true, std::memory_order_acquire); }
  void unlock() {
    if (needed_) held_.store(false, std::memory_order_release);
  }

 private:
  static constexpr int kSpins = 1000;
  const bool needed_;
  std::atomic<bool> held_{false};
};

}  // namespace uroce::dropin
