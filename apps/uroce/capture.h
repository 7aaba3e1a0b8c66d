// `uroce capture`: the frames of a device, from the running daemon into a file.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Captures until ^C, SIGTERM, or the given number of frames or seconds. Errors: the daemon's, EPERM, EBUSY, the
/// file's, ENOSPC among them.
Result<void> run_capture(const Options& options);

}  // namespace uroce::cli
