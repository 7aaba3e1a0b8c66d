// Smoothed round-trip time of one queue pair (RFC 6298, 2).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

class RttEstimator {
 public:
  void sample(Nanos rtt) {
    const int64_t r = std::max<int64_t>(rtt.count(), 1);
    if (smoothed_ == 0) {
      smoothed_ = r;
      variation_ = r / 2;
      return;
    }
    variation_ += (std::abs(smoothed_ - r) - variation_) / 4;
    smoothed_ += (r - smoothed_) / 8;
  }
  bool known() const { return smoothed_ != 0; }
  Nanos smoothed() const { return Nanos(smoothed_); }  ///< 0: not known
  /// 1 ms until the first sample.
  Nanos smoothed_or_assumed() const { return known() ? smoothed() : Nanos(1'000'000); }
  Nanos variation() const { return Nanos(variation_); }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [smoothed, variation] = *this;
    archive("smoothed", smoothed, 0, kPersistMost);
    archive("variation", variation, 0, kPersistMost);
  }

 private:
  static constexpr int64_t kPersistMost = int64_t{1} << 50;  // 13 days: sums of these do not overflow

  int64_t smoothed_ = 0;
  int64_t variation_ = 0;
};

}  // namespace uroce::transport
