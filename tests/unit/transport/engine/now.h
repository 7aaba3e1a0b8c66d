#pragma once

#include "base/time.h"

namespace uroce::transport {

/// When these tests take place.
constexpr Nanos kNow = std::chrono::milliseconds(1);

}  // namespace uroce::transport
