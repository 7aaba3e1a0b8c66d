// The command line of uroce_perf.
#pragma once

#include <expected>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// Why the program ends before any test: help, version (exit code 0), or a sentence about what is wrong (2).
struct EarlyExit {
  int code = 0;
  std::string text;
};

/// Reads the whole command line: [test] EAL arguments, `--`, [test] options [host]. Sets nothing up.
std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv);

}  // namespace uroce::perf
