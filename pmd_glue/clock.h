// The monotonic clock of the workers: the TSC in nanoseconds.
#pragma once

#include <rte_cycles.h>

#include "base/time.h"

namespace uroce::glue {

class TscClock {
 public:
  /// EAL must have started, because it measures the TSC's rate.
  TscClock() : scale_((uint64_t{1'000'000'000} << kShift) / rte_get_tsc_hz()) {}
  Nanos now() const {
    const Wide scaled = static_cast<Wide>(rte_rdtsc()) * scale_;
    return Nanos(static_cast<int64_t>(scaled >> kShift));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr unsigned kShift = 32;
  uint64_t scale_;
};

}  // namespace uroce::glue
