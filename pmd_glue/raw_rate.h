// The frame rate of a port pair without transport: the yardstick of the benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "pmd_glue/raw_options.h"

namespace uroce::glue {

struct RawRate {
  uint64_t frames = 0;  ///< sent, or received
  uint32_t frame_bytes = 0;
  double seconds = 0;  ///< from the first to the last of them

  double frames_per_second() const { return seconds > 0 ? static_cast<double>(frames) / seconds : 0; }
  double gigabits_per_second() const { return frames_per_second() * frame_bytes * 8 / 1e9; }
};

/// Starts EAL, moves frames as fast as possible for `duration`, stops EAL. A receiver counts from its first frame, and
/// ends early when nothing arrives for 0.5 s. RawRole::both and `receive` report the received frames. `frames` makes
/// and takes their contents; without, each has the headers of RawHeaders, and is not read further. Errors: those of
/// Stack::start(); EINVAL (frame size), ETIMEDOUT (link, or nothing received), EINTR (`stop` before the first frame).
Result<RawRate> run_raw(const std::vector<std::string>& eal_args, const RawOptions& options,
                        RawFrames* frames = nullptr);

}  // namespace uroce::glue
