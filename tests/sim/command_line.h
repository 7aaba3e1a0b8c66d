// uroce_sim's options.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "tests/sim/scenario.h"

namespace uroce::sim {

struct CommandLine {
  Scenario scenario;
  std::string json;  ///< where the summary goes, "-" is standard output; empty: nowhere
  bool trace = false;
  bool quiet = false;
};

/// Fills `line` when `app` parses. The options' defaults are the scenario's.
void add_options(CLI::App& app, CommandLine& line);

}  // namespace uroce::sim
