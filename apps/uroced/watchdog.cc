#include "uroced/watchdog.h"

#include <algorithm>

namespace uroce::daemon {

std::optional<Watchdog::Verdict> Watchdog::look(Time now, std::span<const uint64_t> rounds) {
  if (now < next_) return std::nullopt;
  next_ = now + interval_;
  Verdict verdict{.feed = true};
  const bool first = seen_.empty();
  seen_.resize(rounds.size());
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool turns = first || rounds[i] != seen_[i].rounds;
    if (turns && seen_[i].stuck) verdict.turning.push_back(i);
    if (!turns && !seen_[i].stuck) verdict.stuck.push_back(i);
    verdict.feed = verdict.feed && turns;
    seen_[i] = {.rounds = rounds[i], .stuck = !turns};
  }
  return verdict;
}

std::chrono::nanoseconds Watchdog::time_to_look(Time now) const {
  return std::max(std::chrono::nanoseconds(next_ - now), std::chrono::nanoseconds(0));
}

}  // namespace uroce::daemon
