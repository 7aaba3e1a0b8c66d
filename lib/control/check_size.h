// A size that an application asks for, against its limits.
#pragma once

#include <cerrno>
#include <cstdint>

#include <fmt/format.h>

#include <uroce/error.h>

namespace uroce::control {

/// Errors: EINVAL naming `what`, its value and its limits.
inline Result<void> check_size(const char* what, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return {};
  return fail(EINVAL, fmt::format("{} is {}; it must be {} to {}", what, value, min, max));
}

}  // namespace uroce::control
