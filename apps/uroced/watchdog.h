// Decides when systemd's watchdog is fed: only while every engine turns.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pmd_glue/waker.h"

namespace uroce::daemon {

/// One thread.
class Watchdog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `limit`: systemd ends the daemon when nothing was fed for so long (WatchdogSec). Engines are looked at four times
  /// as often, or twice where a sleeping engine would seem stuck.
  explicit Watchdog(std::chrono::nanoseconds limit)
      : interval_(std::max(limit / 4, std::min<Nanos>(limit / 2, kLongerThanANap))) {}

  struct Verdict {
    bool feed = false;
    std::vector<std::size_t> stuck{};    ///< engines that have stood still since the last look, told once
    std::vector<std::size_t> turning{};  ///< engines that were told and turn again
  };
  /// `rounds`: the rounds of each engine so far. A sleeping engine makes two a second. Nothing before the next look is
  /// due.
  std::optional<Verdict> look(Time now, std::span<const uint64_t> rounds);
  /// How long after `now` the next look is due; not negative.
  std::chrono::nanoseconds time_to_look(Time now) const;
  std::chrono::nanoseconds interval() const { return interval_; }

 private:
  static constexpr Nanos kLongerThanANap = glue::kLongestNap * 5 / 4;
  const std::chrono::nanoseconds interval_;
  Time next_{};  ///< at once
  struct Seen {
    uint64_t rounds = 0;
    bool stuck = false;
  };
  std::vector<Seen> seen_;
};

}  // namespace uroce::daemon
