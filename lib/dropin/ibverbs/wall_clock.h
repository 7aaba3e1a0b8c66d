// The time of day of a completion, whose timestamp is of the engine's clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <uroce/verbs/context.h>

namespace uroce::dropin {

/// The offset between the two clocks, measured once a second, because reading the engine's takes a message. Any thread.
class WallClock {
 public:
  /// The time of day, in ns since 1970, at which the engine's clock showed `timestamp_ns`. Where the device does not
  /// answer, the last offset is used.
  uint64_t of(uint64_t timestamp_ns, const Context& context) {
    const int64_t now = wall_ns();
    if (now - measured_ns_.load(std::memory_order_acquire) > kMeasureEvery) {
      if (const auto engine = context.clock_ns()) {
        // The engine's clock was read at some point between the two readings here.
        offset_ns_.store((now + wall_ns()) / 2 - static_cast<int64_t>(*engine), std::memory_order_relaxed);
      }
      measured_ns_.store(now, std::memory_order_release);  // from here on other threads use the offset
    }
    return timestamp_ns + static_cast<uint64_t>(offset_ns_.load(std::memory_order_relaxed));
  }

 private:
  static constexpr int64_t kMeasureEvery = 1'000'000'000;
  static int64_t wall_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  }
  std::atomic<int64_t> measured_ns_{0};
  std::atomic<int64_t> offset_ns_{0};
};

}  // namespace uroce::dropin
