// Which EAL arguments the daemon starts with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "uroced/command_line.h"

namespace uroce::daemon {

/// What the machine offers to this process.
struct Machine {
  std::vector<unsigned> cpus{};  ///< that it may run on, ascending
  uint64_t free_huge_bytes = 0;  ///< in 2 MiB pages
};
Machine read_machine();

struct EalChoice {
  std::vector<std::string> args{};
  std::vector<std::string> notes{};  ///< a line each, for people
};

/// The command line's arguments, else the file's, and engines.lcores where neither names lcores. `--demo` adds what is
/// missing to run anywhere: an engine beside the main thread, no hardware, nothing shared with other DPDK processes,
/// and 4 KiB pages where hugepages are too few.
EalChoice choose_eal(const CommandLine& command, const Config& config, const Machine& machine);

}  // namespace uroce::daemon
