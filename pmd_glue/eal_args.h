// EAL arguments, checked and completed before EAL sees them: its own answer to a bad line is a page of usage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

namespace uroce::glue {

/// What the machine offers, as far as the arguments depend on it.
struct HostFacts {
  bool hugepages = true;  ///< at least one free hugepage
  bool hugetlbfs_mounted = true;
};
HostFacts read_host_facts();

/// Of the file prefix that a process gets when it asks for none; its process id follows.
inline constexpr std::string_view kOwnPrefix = "uroce-";

struct EalPlan {
  std::vector<std::string> args;   ///< for rte_eal_init, without the program name
  std::vector<std::string> notes;  ///< one line each, for people: what was decided for them
  std::vector<std::string> vdevs;  ///< names of the virtual devices asked for
  bool own_runtime_dir = false;    ///< the file prefix is ours alone: its directory can be removed at the end
  bool prints_and_exits = false;   ///< help or version: EAL prints and ends the process
};

/// Checks that each argument is an EAL option with its value, and adds what was left open:
/// * no free hugepages and no word about memory: --no-huge and 512 MiB;
/// * no file prefix: one of this process, so that several run side by side;
/// * virtual devices only: IOVA as VA;
/// * log level warning;
/// * net_memif and net_af_packet: buffers that hold a frame of path MTU 4096.
/// Errors: EINVAL naming the argument.
Result<EalPlan> plan_eal(const std::vector<std::string>& args, const HostFacts& host);

/// The value of `key` in "name,key=value,..."; empty when it is not there.
std::string_view device_argument(std::string_view devargs, std::string_view key);

}  // namespace uroce::glue
