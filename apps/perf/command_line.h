// The command line of uroce_perf.
#pragma once

#include <expected>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// The reason to end before any test: help or version (exit code 0), or a sentence about the fault (2).
struct EarlyExit {
  int code = 0;
  std::string text;
};

/// Reads the whole command line: [test] EAL arguments, `--`, [test] options [host]. Starts nothing.
std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv);

}  // namespace uroce::perf
