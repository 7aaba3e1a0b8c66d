// Time is an argument of the core. The core never reads a clock.
#pragma once

#include <chrono>

namespace uroce {

/// A duration, or a point on the caller's monotonic clock.
using Nanos = std::chrono::nanoseconds;

/// Later than every deadline; means "no timer is armed".
inline constexpr Nanos kNever = Nanos::max();

}  // namespace uroce
