// The daemon from its start to its end.
#pragma once

#include "uroced/command_line.h"

namespace uroce::daemon {

inline constexpr int kOk = 0, kFailed = 1, kUnusable = 2;  ///< exit codes

/// Serves until a signal ends it; the exit code. Once per process, on the main thread.
int run(const CommandLine& command, Config config);

}  // namespace uroce::daemon
