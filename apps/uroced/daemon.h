// The daemon's main function.
#pragma once

#include "uroced/command_line.h"

namespace uroce::daemon {

inline constexpr int kOk = 0, kFailed = 1, kUnusable = 2;  ///< exit codes

/// Serves until a signal ends it, and returns the exit code. Call it once per process, on the main thread.
int run(const CommandLine& command, Config config);

}  // namespace uroce::daemon
