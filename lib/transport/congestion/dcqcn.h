// DCQCN's sender (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3).
#pragma once

#include "transport/congestion/congestion_control.h"

namespace uroce::transport {

/// Nothing is counted, timed or paced at line rate, before the first CNP.
class Dcqcn final : public CongestionControl {
 public:
  /// `settings` must outlive it.
  /// `packet_bytes`: headers and all; `window`: packets.
  Dcqcn(const DcqcnSettings& settings, uint32_t packet_bytes, uint32_t window);

  /// Caps the window at what the line holds in the least round trip seen. heeded_rtt() is what would be clearly less.
  void on_ack(const AckSample& sample) override;
  void on_cnp(Nanos now) override;
  /// Loss without marks is no sign of congestion: links corrupt packets too.
  void on_loss(Nanos) override {}
  /// CNPs would not arrive either, so a timeout counts as one.
  void on_timeout(Nanos now) override { cut(now); }
  void on_timer(Nanos now) override;

  /// The value after the last CNP.
  double alpha() const { return alpha_; }

  /// Values that follow from the settings are not written.
  template <class Archive>
  void persist(Archive& archive) {
    CongestionControl::persist(archive, max_window_, static_cast<uint64_t>(line_));
    archive("current", current_, 0.0, line_);
    archive("target", target_, 0.0, line_);
    archive("least_rtt", heeded_rtt_, Nanos(1), kNever);
    archive("alpha", alpha_, 0.0, 1.0);
    archive.deadline("reported", reported_);
    archive("timer_steps", timer_steps_);
    archive("byte_steps", byte_steps_);
  }

 private:
  void on_bytes(Nanos now) override;
  void cut(Nanos now);
  void fit_window(Nanos rtt);
  void increase();

  const DcqcnSettings& settings_;
  const double line_;  // rates in bits per second
  double current_;     // R_C
  double target_;      // R_T
  const double packet_bits_;
  const uint32_t max_window_;
  double alpha_ = 1.0;
  Nanos reported_ = kNever;   // when alpha was last updated
  uint32_t timer_steps_ = 0;  // T: increases by the timer since the last cut
  uint32_t byte_steps_ = 0;   // BC: by the byte counter
};
static_assert(sizeof(Dcqcn) == 136, "a new member? name it in persist(), then adapt this size");

}  // namespace uroce::transport
