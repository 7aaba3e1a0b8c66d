#include "pmd_glue/eal_args.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "hugepages/huge_pages.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

enum class Value { none, required, optional };
struct LongOption {
  std::string_view name;
  Value value;
};

// rte_eal_init(), DPDK 22.11: "EAL parameters" of the Linux guide.
constexpr std::array<LongOption, 38> kLongOptions{{
    {"allow", Value::required},
    {"base-virtaddr", Value::required},
    {"block", Value::required},
    {"create-uio-dev", Value::none},
    {"file-prefix", Value::required},
    {"force-max-simd-bitwidth", Value::required},
    {"help", Value::none},
    {"huge-dir", Value::required},
    {"huge-unlink", Value::optional},
    {"huge-worker-stack", Value::optional},
    {"in-memory", Value::none},
    {"iova-mode", Value::required},
    {"lcores", Value::required},
    {"legacy-mem", Value::none},
    {"log-level", Value::required},
    {"main-lcore", Value::required},
    {"match-allocations", Value::none},
    {"mbuf-pool-ops-name", Value::required},
    {"no-hpet", Value::none},
    {"no-huge", Value::none},
    {"no-pci", Value::none},
    {"no-shconf", Value::none},
    {"no-telemetry", Value::none},
    {"proc-type", Value::required},
    {"single-file-segments", Value::none},
    {"socket-limit", Value::required},
    {"socket-mem", Value::required},
    {"syslog", Value::required},
    {"telemetry", Value::none},
    {"trace", Value::required},
    {"trace-bufsz", Value::required},
    {"trace-dir", Value::required},
    {"trace-mode", Value::required},
    {"vdev", Value::required},
    {"version", Value::none},
    {"vfio-intr", Value::required},
    {"vfio-vf-token", Value::required},
    {"vmware-tsc-map", Value::none},
}};
constexpr std::string_view kShortWithValue = "abcsdlSmnr";
constexpr std::string_view kShortAlone = "hv";

/// One option as EAL reads it.
struct Option {
  std::string name;  ///< "vdev", "l"
  std::string value;
  std::size_t index = 0;        ///< where in the arguments it stands
  std::size_t value_index = 0;  ///< where in the arguments the value stands
  std::size_t value_offset = 0;
};

Result<std::string_view> match_long(std::string_view text) {
  std::string_view found;
  for (const LongOption& option : kLongOptions) {
    if (option.name == text) return option.name;
    if (!option.name.starts_with(text)) continue;
    if (!found.empty()) return fail(EINVAL, fmt::format("EAL option '--{}' is ambiguous; write it in full", text));
    found = option.name;
  }
  if (found.empty()) {
    return fail(
        EINVAL,
        fmt::format("unknown EAL option '--{}'; EAL options stand before '--', the program's own after it", text));
  }
  return found;
}

Value value_of(std::string_view name) { return std::ranges::find(kLongOptions, name, &LongOption::name)->value; }

Result<std::vector<Option>> read_options(const std::vector<std::string>& args) {
  std::vector<Option> out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    Option option;
    option.index = i;
    Value value = Value::none;
    if (arg.starts_with("--") && arg.size() > 2) {
      const auto equals = arg.find('=');
      auto name = match_long(std::string_view(arg).substr(2, equals == std::string::npos ? equals : equals - 2));
      if (!name) return std::unexpected(name.error());
      option.name = *name;
      value = value_of(*name);
      if (equals != std::string::npos) {
        if (value == Value::none) return fail(EINVAL, fmt::format("EAL option '--{}' takes no value", option.name));
        option.value = arg.substr(equals + 1);
        option.value_index = i;
        option.value_offset = equals + 1;
        value = Value::none;
      }
    } else if (arg.size() >= 2 && arg[0] == '-' && kShortWithValue.find(arg[1]) != std::string_view::npos) {
      option.name = arg.substr(1, 1);
      value = Value::required;
      if (arg.size() > 2) {
        option.value = arg.substr(2);
        option.value_index = i;
        option.value_offset = 2;
        value = Value::none;
      }
    } else if (arg.size() == 2 && arg[0] == '-' && kShortAlone.find(arg[1]) != std::string_view::npos) {
      option.name = arg.substr(1);
    } else {
      return fail(
          EINVAL,
          fmt::format("'{}' is not an EAL option; EAL options stand before '--', the program's own after it", arg));
    }
    if (value == Value::required) {
      if (i + 1 >= args.size()) return fail(EINVAL, fmt::format("EAL option '{}' needs a value", arg));
      option.value = args[++i];
      option.value_index = i;
    }
    out.push_back(std::move(option));
  }
  return out;
}

bool has(const std::vector<Option>& options, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(options, [&](const Option& o) { return std::ranges::find(names, o.name) != names.end(); });
}

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
  for (std::size_t at = std::min(device.find(','), device.size()); at < device.size();) {
    const std::size_t comma = std::min(device.find(',', at + 1), device.size());
    const std::string_view item = device.substr(at + 1, comma - at - 1);
    if (std::ranges::find(kKeys, item.substr(0, item.find('='))) == kKeys.end()) {
      return fail(EINVAL, fmt::format("--vdev {}: net_memif has no argument '{}'; it has {}", device, item,
                                      fmt::join(kKeys, ", ")));
    }
    at = comma;
  }
  return {};
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
                            device, kKernelInterfaceDriver));
  }
  return KernelInterface{std::string(device.substr(0, comma)), std::string(interface), super_frames != "no"};
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

bool names_lcores(const std::vector<std::string>& args) {
  const auto options = read_options(args);
  return options && has(*options, {"l", "c", "S", "lcores"});
}

std::string interface_argument(std::string_view name) {
  return fmt::format("--vdev={}0,iface={}", kKernelInterfaceDriver, name);
}

std::string_view device_argument(std::string_view devargs, std::string_view key) {
  for (std::size_t at = 0; at < devargs.size();) {
    const std::size_t comma = std::min(devargs.find(',', at), devargs.size());
    const std::string_view item = devargs.substr(at, comma - at);
    if (item.starts_with(key) && item.size() > key.size() && item[key.size()] == '=')
      return item.substr(key.size() + 1);
    at = comma + 1;
  }
  return {};
}

namespace {

bool may_open_every_hugetlbfs() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, folder, kind;
    if (!(words >> device >> folder >> kind) || kind != "hugetlbfs") continue;
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    close(fd);
  }
  return true;
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts facts{.hugepages = false,
                  .hugetlbfs_mounted = false,
                  .cards = !cards_for_programs().empty(),
                  .hugetlbfs_closed = !may_open_every_hugetlbfs()};
  for (const hugepages::HugePages& pages : hugepages::read()) {
    facts.hugepages |= pages.free != 0;
    facts.hugetlbfs_mounted |= pages.mounted;
  }
  return facts;
}

Result<EalPlan> plan_eal(const std::vector<std::string>& args, const HostFacts& host) {
  auto options = read_options(args);
  if (!options) return std::unexpected(options.error());
  EalPlan plan;
  plan.args = args;
  plan.prints_and_exits = has(*options, {"h", "help", "v", "version"});
  for (const Option& option : *options) {
    if (option.name == "vdev" && option.value.starts_with(kKernelInterfaceDriver)) {
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
  for (const Option& option : *options) {
    if (option.name != "a" && option.name != "allow") continue;
    if (auto address = pci_address(option.value)) plan.cards.push_back(std::move(*address));
  }
  const auto add = [&](std::string arg) { plan.args.push_back(std::move(arg)); };
  const bool cards_said = has(*options, {"a", "allow", "b", "block", "no-pci"});
  if (!plan.interfaces.empty() && !cards_said) add("--no-pci");
  plan.every_card = !has(*options, {"a", "allow", "no-pci"}) && (plan.interfaces.empty() || cards_said);

  const bool memory_said = has(*options, {"no-huge", "m", "socket-mem", "huge-dir", "legacy-mem"});
  const bool in_memory = has(*options, {"in-memory"});
  const bool huge = host.hugepages && !host.hugetlbfs_closed && (host.hugetlbfs_mounted || in_memory);
  if (!huge && !memory_said) {
    add("--no-huge");
    add("-m");
    add("512");
    plan.notes.push_back(fmt::format("{}: running on 512 MiB of 4 KiB pages (--no-huge -m 512)",
                                     !host.hugepages         ? "no hugepage is free"
                                     : host.hugetlbfs_closed ? "this user may not open the hugetlbfs"
                                                             : "no hugetlbfs is mounted"));
  }
  plan.hugepages = !has(*options, {"no-huge"}) && plan.notes.empty();
  // EAL refuses the two options together, although --in-memory has no effect without hugepages.
  const bool drop_in_memory = in_memory && (has(*options, {"no-huge"}) || !plan.notes.empty());
  for (const Option& option : *options) {
    if (drop_in_memory && option.name == "in-memory") plan.args[option.index].clear();
  }
  std::erase(plan.args, "");
  const bool own_way = has(*options, {"file-prefix", "no-shconf", "proc-type"});
  // Nothing was to be shared, so EAL needs no runtime directory, which a user without root may be unable to make.
  const bool shares_nothing = in_memory && !has(*options, {"no-huge"});
  if (shares_nothing && drop_in_memory && !own_way) add("--no-shconf");
  const bool has_prefix = own_way || shares_nothing;
  if (!has_prefix) {
    add(fmt::format("--file-prefix={}{}", kOwnPrefix, getpid()));
    if (huge && !has(*options, {"huge-unlink", "no-huge"})) add("--huge-unlink");
    plan.own_runtime_dir = true;
  }
  const bool cards = has(*options, {"a", "allow"}) || (plan.every_card && host.cards);
  if (!has(*options, {"iova-mode"}) && !cards) add("--iova-mode=va");
  if (!has(*options, {"log-level"})) add("--log-level=warning");
  return plan;
}

}  // namespace uroce::glue
