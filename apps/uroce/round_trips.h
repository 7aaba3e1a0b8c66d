// Times of round trips.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace uroce::cli {

/// Round trips of one kind.
class RoundTrips {
 public:
  void add(std::chrono::nanoseconds time);
  void lose() { ++lost_; }
  uint64_t answered() const { return answered_; }
  uint64_t lost() const { return lost_; }
  /// "4 of 5 answered, min/avg/max 10.1/12.0/15.5 us"; without times when none was answered.
  std::string text() const;

 private:
  uint64_t answered_ = 0, lost_ = 0;
  std::chrono::nanoseconds least_{0}, most_{0}, sum_{0};
};

}  // namespace uroce::cli
