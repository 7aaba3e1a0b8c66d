// uroce_nvmf's options and its configuration file.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include <uroce/daemon.h>
#include <uroce/stack.h>

#include "arguments/program.h"
#include "nvmf/connections.h"
#include "nvmf/subsystem.h"

namespace uroce::nvmf {

struct Options {
  bool daemon = false;  ///< else the stack of this process
  DaemonOptions daemon_options{};
  std::vector<std::string> eal{};
  StackOptions stack{};
  ListenSettings listen{};
  uint32_t buffers = 256;  ///< of kTransferBytes
  std::vector<SubsystemSettings> subsystems{};
  std::string user = "uroce-nvmf";  ///< to become, where root starts the program; empty: none
  bool filter = true;               ///< of system calls
};

using arguments::EarlyExit;

std::expected<Options, EarlyExit> parse_command_line(int argc, const char* const* argv);

}  // namespace uroce::nvmf
