// Keeps the threads that poll a port away from it while its driver restarts.
#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::glue {

/// Pollers call reaches(), and one other thread the rest.
class PollerPause {
 public:
  /// A poller's thread, before it uses a queue: true when it must not use it. `seen` belongs to the poller and begins
  /// at 0.
  bool reaches(uint32_t& seen) const {
    const uint32_t generation = current_.load(std::memory_order_acquire);
    if (generation == 0) [[likely]]
      return false;
    if (seen != generation) pollers_.fetch_add(1, std::memory_order_release);
    seen = generation;
    return true;
  }
  bool lasts() const { return current_.load(std::memory_order_relaxed) != 0; }
  /// Begins a pause unless one lasts. True once `pollers` threads have seen it.
  bool begin(uint32_t pollers) {
    if (!lasts()) {
      pollers_.store(0, std::memory_order_relaxed);
      current_.store(++pauses_, std::memory_order_release);
    }
    return pollers_.load(std::memory_order_acquire) >= pollers;
  }
  void end() { current_.store(0, std::memory_order_release); }
  /// Begins another pause, for a port that nobody polls again.
  void never_end() { current_.store(++pauses_, std::memory_order_release); }

 private:
  uint32_t pauses_ = 0;
  std::atomic<uint32_t> current_{0};  ///< number of the current pause; 0 for none
  mutable std::atomic<uint32_t> pollers_{0};
};

}  // namespace uroce::glue
