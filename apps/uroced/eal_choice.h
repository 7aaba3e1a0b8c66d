// Chooses the daemon's EAL arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "uroced/command_line.h"

namespace uroce::daemon {

/// CPUs and memory that this process may use.
struct Machine {
  std::vector<unsigned> cpus{};  ///< CPUs that it may run on, ascending
  uint64_t free_huge_bytes = 0;  ///< in 2 MiB pages, as far as its control group allows them
  bool huge_refused = false;     ///< hugepages::may_be_placed() is false
};
Machine read_machine();

struct EalChoice {
  std::vector<std::string> args{};
  std::vector<std::string> notes{};  ///< a line each, for people
};

/// The command line's arguments, else the file's. engines.lcores is added if neither names lcores, and so are the
/// devices' interfaces. `--demo`, and interfaces without other arguments, add those that work anywhere: an engine
/// beside the main thread, no hardware, nothing shared with other DPDK processes, and 4 KiB pages if there are too few
/// hugepages.
EalChoice choose_eal(const CommandLine& command, const Config& config, const Machine& machine);

}  // namespace uroce::daemon
