// The daemon's command line: EAL arguments, `--`, then its own.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "arguments/program.h"
#include "uroced/config.h"

namespace uroce::daemon {

struct CommandLine {
  std::vector<std::string> eal{};  ///< the words before `--`
  std::string config_file{};       ///< empty: none
  bool check = false;              ///< check the machine, and the file if one is named, and end
  std::string check_file{};        ///< empty: none
  bool demo = false;
  bool replace = false;             ///< take over from the running daemon
  bool replace_if_running = false;  ///< the same, or start where there is none
  bool supervise = false;           ///< start again after a crash
  std::vector<Override> overrides{};
  std::vector<std::string> interfaces{};  ///< of the kernel, in the devices' order
  // For all ports, or in port order; they override the file.
  std::vector<std::string> addresses{};
  PortSettings port{};
};

using arguments::EarlyExit;

std::expected<CommandLine, EarlyExit> parse_command_line(int argc, const char* const* argv);

/// The configuration from file, overrides and port options. Each call reads the file again.
std::expected<Config, ConfigErrors> load_config(const CommandLine& command);

}  // namespace uroce::daemon
