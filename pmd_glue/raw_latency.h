// The latency of a port pair without transport: a frame that goes to and fro.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "pmd_glue/raw_options.h"

namespace uroce::glue {

/// Each time that a frame came back: from its sending to its arrival.
using RoundTripTaker = std::function<void(std::chrono::nanoseconds)>;

struct RawLatency {
  uint64_t round_trips = 0;  ///< or frames sent back
  uint64_t lost = 0;         ///< frames that did not come back within 100 ms; each was sent again
  double seconds = 0;        ///< from the first frame sent to the last received
};

/// Starts EAL, passes one frame to and fro, stops EAL. RawRole::send sends it and calls `taker`, until `round_trips`
/// have been made, or for `duration` if that is 0. RawRole::receive sends it back until `stop` says so. RawRole::both
/// does both, on two cores with a worker lcore, else in turns on one. Errors: as run_raw(); ETIMEDOUT also when the
/// other side falls silent for `timeout`.
Result<RawLatency> run_raw_latency(const std::vector<std::string>& eal_args, const RawOptions& options,
                                   uint64_t round_trips, const RoundTripTaker& taker);

}  // namespace uroce::glue
