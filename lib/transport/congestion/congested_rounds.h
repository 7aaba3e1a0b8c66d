// How many rounds in a row a path has been congested (PLB: Qureshi et al., "PLB: Congestion Signals are Simple and
// Effective for Network Load Balancing", SIGCOMM 2022, section 3.2).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

class CongestedRounds {
 public:
  static constexpr uint32_t kMost = 1'000'000;

  /// Congestion was reported, which happens at most once in each `round`. After a round without a report the count
  /// begins again.
  void on_report(Nanos now, Nanos round) {
    count_ = std::min(count(now) + 1, kMost);
    until_ = now + 2 * round;
  }
  uint32_t count(Nanos now) const { return now > until_ ? 0 : count_; }
  /// Another path is taken.
  void begin_again() { count_ = 0; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [until, count] = *this;
    archive.moment("until", until);
    archive("count", count, 0, kMost);
  }

 private:
  Nanos until_{0};
  uint32_t count_ = 0;
};

}  // namespace uroce::transport
