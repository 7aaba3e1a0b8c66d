// The faults that a start would find, as far as that can be known without one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/interface_use.h"
#include "uroced/command_line.h"
#include "uroced/eal_choice.h"

namespace uroce::daemon {

/// The machine's part of the answer.
struct Ports {
  bool eal_may_find = false;         ///< EAL may find a port that no argument names
  glue::InterfaceUses interfaces{};  ///< of the kernel, all of them
};
Ports read_ports();

/// Faults of the command line and the file, a sentence each: uroced ends with kUnusable. `args`: of choose_eal().
/// `ports` is asked only where none is named: the machine may have many connections to look through.
std::vector<std::string> faults_of_settings(const CommandLine& command, const Config& config,
                                            const std::vector<std::string>& args, const glue::HostFacts& host,
                                            const std::function<Ports()>& ports);
/// Faults of the machine, which may be gone when uroced starts.
std::vector<std::string> faults_of_machine(const std::vector<std::string>& args, const glue::HostFacts& host,
                                           const Ports& ports);

}  // namespace uroce::daemon
