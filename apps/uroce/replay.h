// uroce replay: an engine does again what it did, as its recording says.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Errors: EINVAL: the file is no recording; EIO: the engine does something else.
Result<void> run_replay(const Options& options);

}  // namespace uroce::cli
