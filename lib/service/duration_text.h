// Durations in words.
#pragma once

#include <string>

#include <fmt/format.h>

#include "base/time.h"

namespace uroce::service {

/// In the unit that suits it: "8.2 us", "67 ms", "4.3 s".
inline std::string duration_text(Nanos time) {
  const auto ns = static_cast<double>(time.count());
  const auto [value, unit] = ns < 1e6   ? std::pair(ns / 1e3, "us")
                             : ns < 1e9 ? std::pair(ns / 1e6, "ms")
                                        : std::pair(ns / 1e9, "s");
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, unit);
}

}  // namespace uroce::service
