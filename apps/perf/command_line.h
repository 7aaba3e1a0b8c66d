// The command line of uroce_perf.
#pragma once

#include <expected>

#include "arguments/program.h"
#include "perf/options.h"

namespace uroce::perf {

using arguments::EarlyExit;

/// Reads the whole command line: [test] EAL arguments, `--`, [test] options [host]. Starts nothing.
std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv);

}  // namespace uroce::perf
