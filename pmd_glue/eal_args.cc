#include "pmd_glue/eal_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/comma_list.h"
#include "hugepages/huge_pages.h"
#include "pmd_glue/eal_options.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

/// The device's arguments, completed so that it carries frames of path MTU 4096.
std::string complete_vdev(std::string_view device) {
  std::string out(device);
  const auto is = [&](std::string_view driver) {
    return device.starts_with("net_" + std::string(driver)) || device.starts_with("eth_" + std::string(driver));
  };
  // Every frame must fit one memif buffer. net_memif chains buffers for longer frames, and DPDK 22.11 leaves stale
  // chain flags in the ring (fixed upstream by "net/memif: fix descriptor Tx flags corruption").
  if (is("memif") && device_argument(device, "bsize").empty()) out += fmt::format(",bsize={}", kMemifBuffer);
  if (is("af_packet") && device_argument(device, "framesz").empty() && device_argument(device, "blocksz").empty()) {
    out += fmt::format(",framesz={},blocksz={}", kAfPacketFrame, kAfPacketBlock);
  }
  return out;
}

/// net_memif of DPDK 22.11 silently ignores all its arguments when one key is unknown.
Result<void> check_memif(std::string_view device) {
  constexpr std::array<std::string_view, 9> kKeys{"id",  "role",      "bsize", "rsize", "socket", "socket-abstract",
                                                  "mac", "zero-copy", "secret"};
  if (!device.starts_with("net_memif") && !device.starts_with("eth_memif")) return {};
  const auto parts = split_at_commas(device);
  for (const std::string_view item : std::span(parts).subspan(1)) {
    if (std::ranges::find(kKeys, item.substr(0, item.find('='))) == kKeys.end()) {
      return fail(EINVAL, fmt::format("--vdev {}: net_memif has no argument '{}'; it has {}", device, item,
                                      fmt::join(kKeys, ", ")));
    }
  }
  return {};
}

bool is_kernel_interface(std::string_view device) {
  return device.starts_with(kKernelInterfaceDriver) || device.starts_with(kUdpDriver);
}

/// Reads "net_uroce_kif0,iface=eth0".
Result<KernelInterface> kernel_interface(std::string_view device) {
  const std::size_t comma = std::min(device.find(','), device.size());
  const std::string_view arguments = device.substr(std::min(comma + 1, device.size()));
  const std::string_view interface = device_argument(arguments, "iface");
  const std::string_view super_frames = device_argument(arguments, "super_frames");
  std::string understood = fmt::format("iface={}", interface);
  if (super_frames == "yes" || super_frames == "no") understood += fmt::format(",super_frames={}", super_frames);
  if (interface.empty() || arguments != understood) {
    return fail(EINVAL,
                fmt::format("--vdev {}: after its name, {} has iface=NAME, the name of a network interface, and "
                            "maybe super_frames=yes or no, in this order",
                            device, device.substr(0, comma)));
  }
  return KernelInterface{.port = std::string(device.substr(0, comma)),
                         .interface = std::string(interface),
                         .super_frames = super_frames != "no",
                         .udp = device.starts_with(kUdpDriver)};
}

const char* why_no_hugepages(const HostFacts& host) {
  if (!host.hugepages) return "no hugepage is free";
  return host.hugepages_refused ? kHugepagesRefused : "no hugetlbfs is mounted";
}

}  // namespace

SplitWords split_words(int argc, const char* const* argv) {
  SplitWords out;
  if (argc == 0) return out;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto end = std::ranges::find(words, "--");
  if (end == words.end()) {
    out.own = words;
  } else {
    out.eal.assign(words.begin(), end);
    out.own.assign(end + 1, words.end());
  }
  return out;
}

std::vector<std::string> private_arguments(std::string_view lcores) {
  cpu_set_t set;
  int cpu = 0;
  if (lcores.empty() && sched_getaffinity(0, sizeof set, &set) == 0) {
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(static_cast<unsigned>(cpu), &set)) ++cpu;
  }
  return {lcores.empty() ? fmt::format("--lcores={}", cpu) : fmt::format("--lcores={}", lcores), "--in-memory",
          "--no-telemetry"};
}

bool names_option(const std::vector<std::string>& args, std::initializer_list<std::string_view> names) {
  const auto options = read_eal_options(args);
  return options && has_option(*options, names);
}

bool names_lcores(const std::vector<std::string>& args) { return names_option(args, {"l", "c", "S", "lcores"}); }

std::string interface_argument(std::string_view name, std::size_t number) {
  return fmt::format("--vdev={}{},iface={}", kKernelInterfaceDriver, number, name);
}

std::string_view device_argument(std::string_view devargs, std::string_view key) {
  for (const std::string_view item : split_at_commas(devargs)) {
    if (item.starts_with(key) && item.size() > key.size() && item[key.size()] == '=')
      return item.substr(key.size() + 1);
  }
  return {};
}

HostFacts read_host_facts() {
  HostFacts facts{.hugepages = false,
                  .hugetlbfs_mounted = false,
                  .cards = !cards_for_programs().empty(),
                  .hugetlbfs_closed = hugepages::closed_mount(),
                  .hugepages_refused = !hugepages::may_be_placed()};
  for (const hugepages::HugePages& pages : hugepages::read()) {
    facts.hugepages |= pages.free != 0;
    facts.hugetlbfs_mounted |= pages.mounted;
  }
  return facts;
}

Result<EalPlan> plan_eal(const std::vector<std::string>& args, const HostFacts& host) {
  auto options = read_eal_options(args);
  if (!options) return std::unexpected(options.error());
  EalPlan plan;
  plan.args = args;
  plan.prints_and_exits = has_option(*options, {"h", "help", "v", "version"});
  for (const EalOption& option : *options) {
    if (option.name == "vdev" && is_kernel_interface(option.value)) {
      auto interface = kernel_interface(option.value);
      if (!interface) return std::unexpected(interface.error());
      plan.interfaces.push_back(std::move(*interface));
      plan.args[option.index].clear();
      plan.args[option.value_index].clear();
    } else if (option.name == "vdev") {
      if (auto ok = check_memif(option.value); !ok) return std::unexpected(ok.error());
      std::string& arg = plan.args[option.value_index];
      arg = arg.substr(0, option.value_offset) + complete_vdev(option.value);
      plan.vdevs.push_back(option.value.substr(0, option.value.find(',')));
    }
  }
  for (const EalOption& option : *options) {
    if (option.name != "a" && option.name != "allow") continue;
    if (auto address = pci_address(option.value)) plan.cards.push_back(std::move(*address));
  }
  const auto add = [&](std::string arg) { plan.args.push_back(std::move(arg)); };
  const bool cards_said = has_option(*options, {"a", "allow", "b", "block", "no-pci"});
  if (!plan.interfaces.empty() && !cards_said) add("--no-pci");
  plan.every_card = !has_option(*options, {"a", "allow", "no-pci"}) && (plan.interfaces.empty() || cards_said);

  const bool memory_said = has_option(*options, {"no-huge", "m", "socket-mem", "huge-dir", "legacy-mem"});
  const bool in_memory = has_option(*options, {"in-memory"});
  const bool huge = host.hugepages && !host.hugepages_refused && (host.hugetlbfs_mounted || in_memory);
  if (!huge && !memory_said) {
    add("--no-huge");
    add("-m");
    add("512");
    plan.notes.push_back(
        fmt::format("{}: running on 512 MiB of 4 KiB pages (--no-huge -m 512)", why_no_hugepages(host)));
  }
  plan.hugepages = !has_option(*options, {"no-huge"}) && plan.notes.empty();
  // EAL locks each mount of hugetlbfs, and ends where it may not. In memory it needs none, so it is told to look where
  // there is none.
  if (plan.hugepages && in_memory && host.hugetlbfs_closed && !has_option(*options, {"huge-dir"}))
    add("--huge-dir=/dev/null");
  // EAL refuses the two options together, although --in-memory has no effect without hugepages.
  const bool drop_in_memory = in_memory && (has_option(*options, {"no-huge"}) || !plan.notes.empty());
  for (const EalOption& option : *options) {
    if (drop_in_memory && option.name == "in-memory") plan.args[option.index].clear();
  }
  std::erase(plan.args, "");
  const bool secondary = has_option(*options, {"proc-type"});
  plan.shares_nothing = in_memory || has_option(*options, {"no-shconf"});
  // Nothing was to be shared, so EAL needs no runtime directory, which a user without root may be unable to make.
  if (drop_in_memory && !secondary && !has_option(*options, {"no-shconf"})) add("--no-shconf");
  plan.own_prefix = !secondary && !has_option(*options, {"file-prefix"});
  if (plan.own_prefix) {
    add(fmt::format("--file-prefix={}{}", kOwnPrefix, getpid()));
    if (huge && !plan.shares_nothing && !has_option(*options, {"huge-unlink", "no-huge"})) add("--huge-unlink");
  }
  const bool cards = has_option(*options, {"a", "allow"}) || (plan.every_card && host.cards);
  if (!has_option(*options, {"iova-mode"}) && !cards) add("--iova-mode=va");
  if (!has_option(*options, {"log-level"})) add("--log-level=warning");
  return plan;
}

}  // namespace uroce::glue
