// When the next data packet of one queue pair may leave, at the rate that congestion control allows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

class Pacer {
 public:
  /// A QP served late may send up to this much of its rate as a burst.
  static constexpr Nanos kMaxBurst{8192};
  /// The longest wait for one packet, however low the rate was when it left.
  static constexpr Nanos kLongestGap{100'000'000};

  bool may_send(Nanos now) const { return now >= next_send_; }
  Nanos next_send() const { return next_send_; }
  /// A packet of `bytes` bytes, headers and all, leaves now. `rate`: bits per second, not 0.
  void charge(uint32_t bytes, uint64_t rate, Nanos now) {
    const double cost = bytes * 8e9 / static_cast<double>(rate) + owed_ns_;
    const auto whole = static_cast<int64_t>(std::min(cost, static_cast<double>(kLongestGap.count())));
    owed_ns_ = std::min(cost - static_cast<double>(whole), 1.0);
    next_send_ = std::max(next_send_, now - kMaxBurst) + Nanos(whole);
  }
  /// The next packet may leave at once.
  void stop() { next_send_ = Nanos(0); }
  /// Requests and READ responses take turns in using the rate. Returns true when it is the turn of requests, and passes
  /// the turn on.
  bool take_turn_for_requests() { return requests_first_ = !requests_first_; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [next_send, owed_ns, requests_first] = *this;
    archive.moment("next_send", next_send);
    archive("owed_ns", owed_ns, 0.0, 1.0);
    archive("requests_first", requests_first);
  }

 private:
  Nanos next_send_{0};
  double owed_ns_ = 0;  // the fraction of a nanosecond that next_send_ leaves out
  bool requests_first_ = true;
};

}  // namespace uroce::transport
