#pragma once

#include "base/time.h"

namespace uroce::transport {

constexpr uint64_t kGiga = 1'000'000'000;

/// A moment, as microseconds since the test began.
constexpr Nanos at(int64_t us) { return std::chrono::microseconds(us); }

}  // namespace uroce::transport
