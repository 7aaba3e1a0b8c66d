// Time for the measurements.
#pragma once

#include <chrono>
#include <cstdint>

namespace uroce::perf {

/// Nanoseconds of the steady clock. It reads the TSC without a system call.
inline uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

/// Cheaper ticks for a time stamp on every message. A comparison with now_ns() over a run gives their length.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return now_ns();
#endif
}

inline uint64_t to_ns(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

}  // namespace uroce::perf
