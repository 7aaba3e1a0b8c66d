// Time as the core sees it: an argument, never a clock that it reads.
#pragma once

#include <chrono>

namespace uroce {

/// A duration, or a point on the caller's monotonic clock.
using Nanos = std::chrono::nanoseconds;

/// Later than every deadline: "no timer runs".
inline constexpr Nanos kNever = Nanos::max();

}  // namespace uroce
