// `uroce stat` and `uroce top`: sample after sample.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// Prints samples to standard output until the last or a signal.
Result<void> run_stat(const Options& options);
Result<void> run_top(const Options& options);

}  // namespace uroce::cli
