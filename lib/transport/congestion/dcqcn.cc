#include "transport/congestion/dcqcn.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace uroce::transport {
namespace {

// Overdue steps that one call makes up for. The next call makes up for the rest.
constexpr int kStepsPerCall = 64;
// Halving the distance to a target never reaches it. A link's clock is no more exact than this.
constexpr double kNearLine = 0.9999;

constexpr Nanos kAssumedRtt{10'000};  // until there is an acknowledgement
// The window exceeds the bandwidth-delay product: ACKs come late and for several packets, and small messages have small
// packets.
constexpr double kWindowPerProduct = 1.25;
constexpr uint32_t kLeastWindow = 64;
constexpr Nanos kResolution{64};  // of a measured time: less is no change

double bits(uint32_t mbps) { return mbps * 1e6; }
int64_t bytes(uint32_t kib) { return int64_t{kib} * 1024; }

}  // namespace

Dcqcn::Dcqcn(const DcqcnSettings& settings, uint32_t packet_bytes, uint32_t window)
    : settings_(settings),
      line_(bits(settings.line_rate_mbps != 0 ? settings.line_rate_mbps : 100'000)),
      current_(line_),
      target_(line_),
      packet_bits_(packet_bytes * 8.0),
      max_window_(window) {
  fit_window(kAssumedRtt);
}

void Dcqcn::on_ack(const AckSample& sample) {
  if (sample.rtt <= Nanos(0) || sample.rtt >= heeded_rtt_) return;
  heeded_rtt_ = std::max(sample.rtt - kResolution, Nanos(1));
  fit_window(sample.rtt);
}

void Dcqcn::fit_window(Nanos rtt) {
  const double in_flight = line_ * static_cast<double>(rtt.count()) / 1e9 / packet_bits_;
  // A peer that answers after minutes makes it more than a window can be.
  const double wanted = std::min(in_flight * kWindowPerProduct, static_cast<double>(max_window_));
  window_ = std::min(max_window_, std::max(static_cast<uint32_t>(wanted), kLeastWindow));
}

void Dcqcn::on_cnp(Nanos now) {
  constexpr uint32_t kUsualInterval = 50;
  const uint32_t interval = settings_.cnp_interval_us != 0 ? settings_.cnp_interval_us : kUsualInterval;
  congested_rounds_.on_report(now, std::chrono::microseconds(interval));
  cut(now);
}

void Dcqcn::cut(Nanos now) {
  on_timer(now);
  // Equation 2, applied at once for all the time since the last CNP.
  const std::chrono::microseconds alpha_timer(settings_.alpha_timer_us);
  if (now > reported_) alpha_ *= std::pow(1 - settings_.gain, static_cast<double>((now - reported_) / alpha_timer));
  reported_ = now;
  // Equation 1.
  target_ = current_;
  current_ = std::max(current_ * (1 - alpha_ / 2), std::min(bits(settings_.min_rate_mbps), line_));
  alpha_ = (1 - settings_.gain) * alpha_ + settings_.gain;
  rate_ = static_cast<uint64_t>(current_);
  timer_steps_ = byte_steps_ = 0;
  bytes_left_ = bytes(settings_.byte_counter_kib);
  next_deadline_ = now + std::chrono::microseconds(settings_.increase_timer_us);
}

void Dcqcn::on_timer(Nanos now) {
  for (int step = 0; step < kStepsPerCall && now >= next_deadline_; ++step) {
    next_deadline_ += std::chrono::microseconds(settings_.increase_timer_us);
    ++timer_steps_;
    increase();
  }
}

void Dcqcn::on_bytes(Nanos now) {
  bytes_left_ = bytes(settings_.byte_counter_kib);
  on_timer(now);
  if (rate_ == 0) return;
  ++byte_steps_;
  increase();
}

// Figure 7: fast recovery until the timer or the counter has done F steps, hyper increase once both have.
void Dcqcn::increase() {
  const uint32_t most = std::max(timer_steps_, byte_steps_);
  const uint32_t least = std::min(timer_steps_, byte_steps_);
  if (least > settings_.fast_recovery) {
    target_ += bits(settings_.hyper_mbps);
  } else if (most > settings_.fast_recovery) {
    target_ += bits(settings_.additive_mbps);
  }
  target_ = std::min(target_, line_);
  current_ = (current_ + target_) / 2;
  rate_ = static_cast<uint64_t>(current_);
  if (current_ < line_ * kNearLine) return;
  current_ = line_;
  rate_ = 0;
  bytes_left_ = INT64_MAX;
  next_deadline_ = kNever;
}

}  // namespace uroce::transport
