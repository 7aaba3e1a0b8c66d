// The daemon's command line: EAL arguments, `--`, then its own.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "uroced/config.h"

namespace uroce::daemon {

struct CommandLine {
  std::vector<std::string> eal{};  ///< what stands before `--`
  std::string config_file{};       ///< empty: none
  std::string check_file{};        ///< validate this and leave
  bool demo = false;
  std::vector<Override> overrides{};
  // Of ports, for all of them or in port order; go before the file.
  std::vector<std::string> addresses{};
  std::optional<int> mtu{}, vlan{};
  std::optional<std::string> gateway{};
};

/// What to print instead of running, and the exit code.
struct EarlyExit {
  int code = 0;
  std::string text;
};

std::expected<CommandLine, EarlyExit> parse_command_line(int argc, const char* const* argv);

/// The configuration that a command line asks for: file, overrides and ports. Read anew at each call.
std::expected<Config, ConfigErrors> load_config(const CommandLine& command);

}  // namespace uroce::daemon
