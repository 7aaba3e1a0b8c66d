// `uroce ping`: whether RoCE reaches an address, and how fast.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Prints a line for each kind of round trip. Errors: the daemon's, EIO (it has ended), EHOSTUNREACH (nobody answers).
Result<void> run_ping(const Options& options);
/// Answers pings until ^C or SIGTERM. Errors: the daemon's, EADDRINUSE among them, and EIO (it has ended).
Result<void> run_ping_answer(const Options& options);

}  // namespace uroce::cli
