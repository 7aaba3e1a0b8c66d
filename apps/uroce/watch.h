// `uroce stat` and `uroce top`: sample after sample.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Prints to standard output until it is done or interrupted.
Result<void> run_stat(const Options& options);
Result<void> run_top(const Options& options);

}  // namespace uroce::cli
