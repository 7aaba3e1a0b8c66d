#include "uroce/round_trips.h"

#include <fmt/format.h>

#include <algorithm>

namespace uroce::cli {

void RoundTrips::add(std::chrono::nanoseconds time) {
  least_ = answered_ == 0 ? time : std::min(least_, time);
  most_ = std::max(most_, time);
  sum_ += time;
  ++answered_;
}

std::string RoundTrips::text() const {
  std::string out = fmt::format("{} of {} answered", answered_, answered_ + lost_);
  if (answered_ == 0) return out;
  const auto us = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; };
  return out + fmt::format(", min/avg/max {:.1f}/{:.1f}/{:.1f} us", us(least_),
                           us(sum_) / static_cast<double>(answered_), us(most_));
}

}  // namespace uroce::cli
