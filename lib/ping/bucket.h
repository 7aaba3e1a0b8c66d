// A rate with bursts.
#pragma once

#include <algorithm>
#include <chrono>

namespace uroce::ping {

/// A token bucket: `rate` a second on average, and `rate` at once after a second of silence.
class Bucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Bucket(double rate, Time now) : rate_(rate), tokens_(rate), filled_(now) {}

  /// False: the rate is used up. `now` never goes back.
  bool has(Time now) {
    tokens_ = std::min(rate_, tokens_ + rate_ * std::chrono::duration<double>(now - filled_).count());
    filled_ = now;
    return tokens_ >= 1;
  }
  /// has(), and takes one.
  bool take(Time now) {
    if (!has(now)) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double rate_;
  double tokens_;
  Time filled_;
};

}  // namespace uroce::ping
