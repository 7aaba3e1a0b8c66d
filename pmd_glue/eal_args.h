// Checks and completes EAL arguments before EAL sees them, because EAL answers a bad argument with a page of usage.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "pmd_glue/kif/name.h"

namespace uroce::glue {

/// Facts of the machine on which the arguments depend.
struct HostFacts {
  bool hugepages = true;  ///< at least one free hugepage
  bool hugetlbfs_mounted = true;
  bool cards = false;              ///< Ethernet cards are bound to a driver for programs
  bool hugetlbfs_closed = false;   ///< a hugetlbfs is mounted that this user may not open
  bool hugepages_refused = false;  ///< hugepages::may_be_placed() is false
};
HostFacts read_host_facts();

/// Why a process with `hugepages_refused` has none.
inline constexpr const char* kHugepagesRefused = "this container may not ask where hugepages lie (get_mempolicy)";

/// Beginning of the file prefix that a process gets when it gives none; its process id follows.
inline constexpr std::string_view kOwnPrefix = "uroce-";

struct EalPlan {
  std::vector<std::string> args;            ///< for rte_eal_init, without the program name
  std::vector<std::string> notes;           ///< one line each, for people: decisions made for them
  std::vector<std::string> vdevs;           ///< names of the requested virtual devices
  std::vector<KernelInterface> interfaces;  ///< ports that are not EAL's; `args` lacks them
  std::vector<std::string> cards;           ///< PCI addresses of the requested cards
  bool every_card = false;                  ///< EAL takes every card that is bound to a driver for programs
  bool hugepages = true;
  bool own_prefix = false;        ///< only this process has the file prefix
  bool shares_nothing = false;    ///< other processes of DPDK use none of EAL's files
  bool prints_and_exits = false;  ///< help or version: EAL prints and ends the process
};

/// Checks that each argument is an EAL option with its value, and adds these defaults:
/// * without free hugepages and without options for memory: --no-huge and 512 MiB;
/// * without a file prefix: one for this process, so that several run side by side, and nothing is left of it;
/// * with virtual devices only: IOVA as VA;
/// * log level warning;
/// * with interfaces of the kernel, unless cards are named: no PCI;
/// * net_memif and net_af_packet: buffers that hold a frame of path MTU 4096.
/// Errors: EINVAL naming the argument.
Result<EalPlan> plan_eal(const std::vector<std::string>& args, const HostFacts& host);

struct SplitWords {
  std::vector<std::string> eal, own;
};
/// The words of a command line after the program's name: EAL's before the first `--`, and the program's own behind it.
/// Without a `--` all are the program's own.
SplitWords split_words(int argc, const char* const* argv);

/// EAL arguments of a program that shares nothing with other programs of DPDK. `lcores`: as for --lcores; empty for one
/// engine, on the program's own thread and the first CPU that it may use. EAL alone would take all of them.
std::vector<std::string> private_arguments(std::string_view lcores = {});
/// Whether one of the options, named without dashes, is among the arguments. False for arguments that plan_eal()
/// refuses.
bool names_option(const std::vector<std::string>& args, std::initializer_list<std::string_view> names);
/// Whether the arguments say which lcores there are.
bool names_lcores(const std::vector<std::string>& args);
/// Of a setting that EAL gets as --lcores: what is wrong with its characters; empty for nothing. EAL checks the rest.
constexpr std::string_view fault_of_lcores(std::string_view text) {
  if (text.find_first_not_of("0123456789,-()@") == std::string_view::npos) return {};
  return "it may contain only digits and , - ( ) @ as for EAL's --lcores, like \"0,1\" or \"(0,1)@2\"";
}
/// The argument for a port on the kernel's interface `name`, the `number`th of such ports, from 0.
std::string interface_argument(std::string_view name, std::size_t number = 0);

/// The value of `key` in "name,key=value,..."; empty when it is missing.
std::string_view device_argument(std::string_view devargs, std::string_view key);

}  // namespace uroce::glue
