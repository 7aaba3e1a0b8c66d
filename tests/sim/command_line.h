// uroce_sim's options.
#pragma once

#include <optional>
#include <string>

#include "arguments/program.h"
#include "tests/sim/scenario.h"

namespace uroce::sim {

struct CommandLine {
  Scenario scenario;
  std::string json;  ///< where the summary goes, "-" is standard output; empty: nowhere
  bool trace = false;
  bool quiet = false;
};

/// Fills `line`, whose scenario has the defaults.
std::optional<arguments::EarlyExit> parse_command_line(int argc, const char* const* argv, CommandLine& line);

}  // namespace uroce::sim
