#include "transport/loss/probe_timer.h"

#include <algorithm>

#include "transport/loss/ack_timeout.h"
#include "transport/loss/retry_budget.h"

namespace uroce::transport {
namespace {

constexpr Nanos kLeastProbe{8'000};
constexpr Nanos kLeastTimeout{50'000};
constexpr Nanos kLongestWait{1'000'000'000};
// For a QP without a timeout: after this long a silence the peer may have emptied its reorder buffer.
constexpr Nanos kForgottenAfter{100'000'000};

}  // namespace

Nanos ProbeTimer::wait(const RttEstimator& rtt, uint8_t timeout) const {
  Nanos wait = std::max(rtt.smoothed_or_assumed() * 2 + rtt.variation() * 4, kLeastProbe);
  if (silent_timers_ > 0) {
    wait = std::max(wait, kLeastTimeout / 2) * (int64_t{1} << std::min(silent_timers_, 20u));
  }
  return std::min({wait, kLongestWait, ack_timeout(timeout)});
}

SilenceVerdict ProbeTimer::on_expiry(Nanos now, uint8_t timeout, uint8_t retry_cnt) {
  ++silent_timers_;
  const Nanos silence = now - progress_at_;
  if (silence_exhausts_retries(silent_timers_, silence, timeout, retry_cnt)) return {.give_up = true};
  // A shorter silence may be a peer whose thread is not scheduled.
  const Nanos forgotten_after = timeout == 0 ? kForgottenAfter : ack_timeout(timeout);
  return {.probe = silent_timers_ == 1,
          .report_timeout = silent_timers_ == 2,
          .assume_forgotten = silent_timers_ > 2 && silence >= forgotten_after};
}

}  // namespace uroce::transport
