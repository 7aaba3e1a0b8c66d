#include "transport/loss/probe_timer.h"

#include <algorithm>

#include "transport/loss/retry_budget.h"

namespace uroce::transport {
namespace {

constexpr Nanos kLeastProbe{8'000};
constexpr Nanos kLeastTimeout{50'000};
constexpr Nanos kLongestWait{1'000'000'000};
// For a QP without a timeout: after this long a silence the peer may have emptied its reorder buffer.
constexpr Nanos kForgottenAfter{100'000'000};

Nanos two_round_trips(const RttEstimator& rtt) {
  return std::max(rtt.smoothed_or_assumed() * 2 + rtt.variation() * 4, kLeastProbe);
}

}  // namespace

void ProbeTimer::on_first_sent(Nanos now) {
  lateness_ = patience_ + std::clamp((now - progress_at_) / kNapShare, Nanos(0), kLongestNap);
  progress_at_ = now;
}

void ProbeTimer::on_late(const RttEstimator& rtt) {
  patience_ = std::min(patience_ * 2 + two_round_trips(rtt), kMostPatience);
}

Nanos ProbeTimer::wait(const RttEstimator& rtt, uint8_t timeout, Nanos peer_delay) const {
  Nanos wait = two_round_trips(rtt);
  if (silent_timers_ == 0) {
    wait += std::max(lateness_, peer_delay);
  } else {
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
