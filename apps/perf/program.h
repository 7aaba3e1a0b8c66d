// The whole program: uroce_perf, and tests/bench/limit with frames of its own.
#pragma once

namespace uroce::glue {
class RawFrames;
}

namespace uroce::perf {

/// Reads the command line, runs the test, prints and writes its report. `frames` as in run_raw_test(). Returns the exit
/// code: 0, 1 the run failed, 2 unusable command line.
int run_program(int argc, char** argv, glue::RawFrames* frames = nullptr);

}  // namespace uroce::perf
