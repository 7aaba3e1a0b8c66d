// Signals that ask a program to end: which of them are one request, and which ask for a quicker end.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace uroce {

/// Signals within this time after the first one belong to it. timeout(1) sends SIGTERM to the program and then to the
/// program's group, and a wrapper may pass on a ^C that the terminal has sent to both. A person who wants a quicker end
/// has waited longer; where processors are shared, two signals that were sent together arrive some 10 ms apart.
inline constexpr Nanos kOneEndRequest = std::chrono::seconds(1);

enum class EndSignal {
  first,  ///< asks for the end
  same,   ///< belongs to the first one
  again,  ///< asks to end at once
};

/// Any thread, and signal handlers.
class EndRequest {
 public:
  /// Takes a signal at `now`.
  EndSignal take(Nanos now) {
    int64_t first = kNone;
    if (first_.compare_exchange_strong(first, now.count())) return EndSignal::first;
    return now.count() - first < kOneEndRequest.count() ? EndSignal::same : EndSignal::again;
  }
  /// Whether a signal came.
  bool came() const { return first_.load(std::memory_order_relaxed) != kNone; }

 private:
  static constexpr int64_t kNone = INT64_MIN;
  std::atomic<int64_t> first_{kNone};
  static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler may not wait");
};

}  // namespace uroce
