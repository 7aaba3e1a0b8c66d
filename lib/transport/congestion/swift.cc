#include "transport/congestion/swift.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace uroce::transport {
namespace {

constexpr double kNanosPerMicro = 1000;
// The paper names no value. With this one, many flows that start together do not fill a queue.
constexpr double kFirstWindow = 4;

}  // namespace

Swift::Swift(const SwiftSettings& settings, uint32_t packet_bytes, uint32_t window, Nanos now)
    : settings_(settings),
      packet_bits_(packet_bytes * 8.0),
      max_window_(std::max(window, 1u)),
      cwnd_(std::min(kFirstWindow, max_window_)),
      decreased_(now) {
  const double at_max = 1 / std::sqrt(settings.flow_scaling_max);
  scaling_slope_ = settings.flow_scaling_us * kNanosPerMicro / (1 / std::sqrt(settings.flow_scaling_min) - at_max);
  scaling_offset_ = -scaling_slope_ * at_max;
  apply();
}

Nanos Swift::target_delay() const {
  const double scaled =
      std::clamp(scaling_slope_ / std::sqrt(cwnd_) + scaling_offset_, 0.0, settings_.flow_scaling_us * kNanosPerMicro);
  return Nanos(static_cast<int64_t>(settings_.base_target_us * kNanosPerMicro + scaled));
}

// Algorithm 1.
void Swift::on_ack(const AckSample& sample) {
  unused_packets_ += sample.packets;
  timeouts_ = 0;
  if (sample.rtt <= Nanos(0) || unused_packets_ == 0) return;
  rtt_ = sample.rtt;
  const double packets = std::exchange(unused_packets_, 0);
  const auto delay = static_cast<double>(sample.rtt.count());
  const auto target = static_cast<double>(target_delay().count());
  if (delay < target) {
    // The paper does not say how a flow begins; here the window doubles at first.
    const double step = starting_ ? 1 : settings_.additive_increase / std::max(cwnd_, 1.0);
    cwnd_ += step * packets;
    return apply();
  }
  starting_ = false;
  if (can_decrease(sample.now)) {
    congested_rounds_.on_report(sample.now, sample.rtt);
    decrease(std::max(1 - settings_.beta * (delay - target) / delay, 1 - settings_.max_decrease), sample.now);
  }
}

void Swift::on_loss(Nanos now) {
  timeouts_ = 0;
  starting_ = false;
  if (can_decrease(now)) decrease(1 - settings_.max_decrease, now);
}

void Swift::on_timeout(Nanos now) {
  starting_ = false;
  if (++timeouts_ >= settings_.reset_after_timeouts) return decrease(0, now);
  if (can_decrease(now)) decrease(1 - settings_.max_decrease, now);
}

void Swift::decrease(double factor, Nanos now) {
  cwnd_ *= factor;
  decreased_ = now;
  apply();
}

// A window below one packet is one packet with pauses: section 3.4.
void Swift::apply() {
  cwnd_ = std::clamp(cwnd_, settings_.min_window, max_window_);
  window_ = std::max(1u, static_cast<uint32_t>(cwnd_));
  rate_ = 0;
  if (cwnd_ >= 1 || rtt_ == Nanos(0)) return;
  rate_ = std::max<uint64_t>(1, static_cast<uint64_t>(cwnd_ * packet_bits_ * 1e9 / static_cast<double>(rtt_.count())));
}

}  // namespace uroce::transport
