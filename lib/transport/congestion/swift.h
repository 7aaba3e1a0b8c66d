// Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020,
// section 3). One window serves fabric and hosts together, because the delay is measured as a whole.
#pragma once

#include "transport/congestion/congestion_control.h"

namespace uroce::transport {

class Swift final : public CongestionControl {
 public:
  /// `settings` must outlive it. `packet_bytes`: headers and all; `window`: packets.
  Swift(const SwiftSettings& settings, uint32_t packet_bytes, uint32_t window, Nanos now);

  void on_ack(const AckSample& sample) override;
  /// Swift does not react to marks.
  void on_cnp(Nanos) override {}
  void on_loss(Nanos now) override;
  void on_timeout(Nanos now) override;
  void on_timer(Nanos) override {}

  /// Packets, with a fraction.
  double congestion_window() const { return cwnd_; }
  /// The target of a flow with this window.
  Nanos target_delay() const;

  /// Values that follow from the settings are not written.
  template <class Archive>
  void persist(Archive& archive) {
    CongestionControl::persist(archive, static_cast<uint32_t>(max_window_), UINT64_MAX);
    archive("cwnd", cwnd_, settings_.min_window, max_window_);
    archive("rtt", rtt_, Nanos(0), kNever);
    archive.moment("decreased", decreased_);
    archive("unused_packets", unused_packets_);
    archive("timeouts", timeouts_);
    archive("starting", starting_);
  }

 private:
  bool can_decrease(Nanos now) const { return now - decreased_ >= rtt_; }
  void decrease(double factor, Nanos now);
  void apply();

  const SwiftSettings& settings_;
  const double packet_bits_;
  const double max_window_;
  double scaling_slope_;  // alpha and beta of section 3.5, nanoseconds
  double scaling_offset_;
  double cwnd_;
  Nanos rtt_{0};  // newest
  Nanos decreased_;
  uint32_t unused_packets_ = 0;  // that were acknowledged without a measured delay
  uint32_t timeouts_ = 0;        // in a row
  bool starting_ = true;         // the delay has not reached its target yet
};
static_assert(sizeof(Swift) == 144, "a new member? name it in persist(), then adapt this size");

}  // namespace uroce::transport
