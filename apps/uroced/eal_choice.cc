#include "uroced/eal_choice.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "cgroup/cgroup.h"
#include "hugepages/huge_pages.h"
#include "pmd_glue/eal_args.h"

namespace uroce::daemon {

namespace {

/// Enough for two ports, their buffers and EAL.
constexpr uint64_t kSmallMemory = uint64_t{128} << 20;

constexpr uint64_t kHugePage = uint64_t{2} << 20;

/// Adds arguments that work on any machine.
void add_defaults(EalChoice& choice, const Machine& machine) {
  auto& args = choice.args;
  if (!glue::names_lcores(args)) {
    // Always two lcores: the main one waits for signals, the other runs the engines. With `sleep` they can share one
    // CPU.
    const unsigned first = machine.cpus.empty() ? 0 : machine.cpus[0];
    const unsigned second = machine.cpus.size() > 1 ? machine.cpus[1] : first;
    args.push_back(fmt::format("--lcores=0@{},1@{}", first, second));
  }
  if (!glue::names_option(args, {"in-memory", "file-prefix", "no-shconf"})) args.push_back("--in-memory");
  if (!glue::names_option(args, {"no-pci", "a", "allow", "b", "block"})) args.push_back("--no-pci");
  if (!glue::names_option(args, {"no-telemetry", "telemetry"})) args.push_back("--no-telemetry");
  if (!glue::names_option(args, {"m", "no-huge", "socket-mem", "huge-dir", "legacy-mem"}) &&
      (machine.huge_refused || machine.free_huge_bytes < kSmallMemory)) {
    args.insert(args.end(), {"--no-huge", "-m", "256"});
    choice.notes.push_back(fmt::format("{}; running on 256 MiB of 4 KiB pages",
                                       machine.huge_refused
                                           ? glue::kHugepagesRefused
                                           : fmt::format("{} MiB of 2 MiB hugepages are free here, but {} are needed",
                                                         machine.free_huge_bytes >> 20, kSmallMemory >> 20)));
  }
}

}  // namespace

Machine read_machine() {
  Machine machine;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) machine.cpus.push_back(cpu);
    }
  }
  for (const hugepages::HugePages& pages : hugepages::read()) {
    if (pages.page_bytes == kHugePage) machine.free_huge_bytes = pages.free * pages.page_bytes;
  }
  machine.free_huge_bytes = std::min(machine.free_huge_bytes, cgroup::Groups().huge_pages(kHugePage).left);
  machine.huge_refused = !hugepages::may_be_placed();
  return machine;
}

EalChoice choose_eal(const CommandLine& command, const Config& config, const Machine& machine) {
  EalChoice choice;
  choice.args = command.eal.empty() ? config.eal : command.eal;
  if (!config.lcores.empty() && !glue::names_lcores(choice.args)) choice.args.push_back("--lcores=" + config.lcores);
  const auto interfaces = config.interface_arguments();
  const bool nothing_said = choice.args.empty() || (choice.args.size() == 1 && !config.lcores.empty());
  choice.args.insert(choice.args.end(), interfaces.begin(), interfaces.end());
  if (command.demo || (nothing_said && !interfaces.empty())) add_defaults(choice, machine);
  return choice;
}

}  // namespace uroce::daemon
