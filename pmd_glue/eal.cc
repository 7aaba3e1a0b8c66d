#include "pmd_glue/eal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <getopt.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_pdump.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/interrupt_thread.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/runtime_folder.h"
#include "pmd_glue/xdp/attached.h"

namespace uroce::glue {

namespace {

/// Holds back standard output and error while it lives. EAL answers a bad value with its whole usage on standard
/// output, and logs to standard error before it knows its log level.
class HeldOutput {
 public:
  explicit HeldOutput(bool active) : active_(active) {
    if (!active_) return;
    std::fflush(nullptr);
    held_ = memfd_create("eal-output", MFD_CLOEXEC);
    for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      saved_[fd - 1] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
      if (fd == STDERR_FILENO) dup2(held_, fd);
      if (fd == STDOUT_FILENO) {
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, fd);
        close(null);
      }
    }
  }
  ~HeldOutput() { release(); }
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;

  /// Restores the streams and returns the text for standard error.
  std::string release() {
    if (!active_) return {};
    active_ = false;
    std::fflush(nullptr);
    for (int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      dup2(saved_[fd - 1], fd);
      close(saved_[fd - 1]);
    }
    std::string text;
    char buffer[4096];
    lseek(held_, 0, SEEK_SET);
    for (ssize_t n = 0; (n = read(held_, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
    close(held_);
    return text;
  }

 private:
  bool active_;
  int held_ = -1;
  int saved_[2] = {-1, -1};
};

std::vector<std::string> lines_of(const std::string& output) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    if (end > at) lines.push_back(output.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Harmless messages of EAL and drivers: no legacy telemetry, a kernel without the scheduler that net_tap prefers, a
// size of hugepages without pages (where all sizes have none, or too few, other lines follow).
constexpr std::array kHarmless{"TELEMETRY: No legacy callbacks", "multiq qdisc", "qdisc kind is unknown",
                               "Disabling rte flow support", "hugepages reported on node"};

bool contains_any(std::string_view line, std::span<const char* const> parts) {
  return std::ranges::any_of(parts, [&](const char* part) { return line.find(part) != std::string_view::npos; });
}

/// EAL says what it lacks and not where to get it.
std::string way_out(std::string_view reason) {
  if (reason.find("Cannot get hugepage information") != reason.npos) {
    return "; mount a hugetlbfs (hugeadm --create-mounts) and reserve pages (sysctl vm.nr_hugepages=256), or give EAL "
           "--in-memory or --no-huge";
  }
  // The second: others took pages between EAL's count and its own mapping of them.
  if (contains_any(reason, std::array{"Not enough memory available", "Cannot init memory"})) {
    return "; ask for less with -m, reserve more pages (sysctl vm.nr_hugepages=N), or give EAL --no-huge";
  }
  if (reason.find("set_mempolicy: Operation not permitted") != reason.npos) {
    return "; give EAL --no-huge, or the container CAP_SYS_NICE";
  }
  if (reason.find(" unavailable") != reason.npos && access("/sys/devices/system/cpu", F_OK) != 0) {
    return "; mount /sys, where EAL finds the CPUs";
  }
  return "";
}

/// The reason of a failed start, from the lines that EAL printed.
std::string reason_of(const std::string& output) {
  // Lines that follow from the reason.
  constexpr std::array kConsequences{"Invalid 'command line' arguments", "Cannot probe devices", "Bus (", "TELEMETRY:",
                                     "Unregistering with invalid input", "vdev_probe()"};
  std::string reason;
  for (std::string line : lines_of(output)) {
    for (const char* prefix : {"EAL: ", "FATAL: ", "Error - "}) {
      if (line.starts_with(prefix)) line.erase(0, std::strlen(prefix));
    }
    if (contains_any(line, kConsequences) || contains_any(line, kHarmless) || reason.find(line) != std::string::npos)
      continue;
    reason += (reason.empty() ? "" : "; ") + line;
  }
  return reason.empty() ? "EAL gives no reason" : reason + way_out(reason);
}

/// The one of EAL's arguments that requests a virtual device with arguments of its own.
auto argument_of(auto& plan, const std::string& vdev) {
  return std::ranges::find_if(plan.args, [&](const std::string& arg) { return arg.find(vdev + ',') != arg.npos; });
}

/// EAL starts even when a virtual device failed. Report that device instead.
Result<void> check_vdevs(const EalPlan& plan, const std::string& output) {
  for (const std::string& name : plan.vdevs) {
    if (!name.starts_with("net_") && !name.starts_with("eth_")) continue;
    uint16_t port = 0;
    const bool found = rte_eth_dev_get_port_by_name(name.c_str(), &port) == 0;
    if (found) continue;
    const auto arg = argument_of(plan, name);
    const std::string device = arg == plan.args.end() ? name : arg->substr(arg->find(name));
    return fail(ENODEV, fmt::format("--vdev {} makes no port: {}", device, reason_of(output)));
  }
  return {};
}

/// Checks the cards that EAL is to take, and keeps other processes off them. A card is reset when EAL finds it, so this
/// comes first.
Result<PciLocks> claim_cards(const EalPlan& plan) {
  std::vector<PciCard> cards;
  if (plan.every_card) cards = cards_for_programs();
  for (const std::string& address : plan.cards) {
    auto card = read_pci_card(address);
    if (!card || !(card->for_programs() || card->keeps_kernel_driver()))
      return fail(ENODEV, why_no_port(address, read_interface_uses()));
    cards.push_back(std::move(*card));
  }
  PciLocks locks;
  for (const PciCard& card : cards) {
    if (!plan.hugepages && card.needs_hugepages()) {
      return fail(EINVAL,
                  fmt::format("card {} is bound to {} without an IOMMU, which needs hugepages; reserve some with: "
                              "sysctl vm.nr_hugepages=256",
                              card.address, card.driver));
    }
    if (auto ok = locks.add(card); !ok) return std::unexpected(ok.error());
  }
  return locks;
}

/// EAL starts even when a driver could not start its card.
Result<void> check_cards(const EalPlan& plan, const std::string& output) {
  for (const std::string& address : plan.cards) {
    uint16_t port = 0;
    if (rte_eth_dev_get_port_by_name(address.c_str(), &port) == 0) continue;
    return fail(ENODEV,
                fmt::format("{}; EAL says: {}", why_no_port(address, read_interface_uses()), reason_of(output)));
  }
  return {};
}

}  // namespace

/// Each net_af_xdp device gets all queues of its interface and a file for its XDP program, unless it names others.
Result<void> Eal::complete_af_xdp(EalPlan& plan) {
  for (const std::string& name : plan.vdevs) {
    const auto arg = argument_of(plan, name);
    if (!name.starts_with("net_af_xdp") || arg == plan.args.end()) continue;
    const std::string device = arg->substr(arg->find(name));
    const std::string interface(device_argument(device, "iface"));
    // The driver detaches whatever program it finds when it ends, also that of another process.
    const auto attached = xdp::attached_program(interface);
    if (!attached) return fail(attached.error().code, fmt::format("--vdev {}: {}", device, attached.error().text));
    if (*attached != 0 && !xdp::remove_stale_program(interface, *attached)) {
      return fail(EBUSY, fmt::format("--vdev {}: interface {} has an XDP program already (id {}): of another program "
                                     "that runs, or of one that was killed; end it, or detach the program with: "
                                     "ip link set dev {} xdp off",
                                     device, interface, *attached, interface));
    }
    const uint32_t queues = netdev_queues(interface).combined;
    const bool said =
        !device_argument(device, "queue_count").empty() || !device_argument(device, "start_queue").empty();
    if (!said && queues > 1) *arg += fmt::format(",queue_count={}", queues);
    if (!xdp::have_programs() || !device_argument(device, "xdp_prog").empty()) continue;
    auto file = xdp::ProgramFile::make();
    if (!file) return std::unexpected(file.error());
    *arg += fmt::format(",xdp_prog={}", file->path());
    xdp_programs_.push_back(std::move(*file));
  }
  return {};
}

Result<std::unique_ptr<Eal>> Eal::start(const std::vector<std::string>& args) {
  auto plan = plan_eal(args, read_host_facts());
  if (!plan) return std::unexpected(plan.error());
  for (const std::string& one : plan->notes) note(one);

  std::unique_ptr<Eal> eal(new Eal);
  eal->interfaces_ = plan->interfaces;
  if (!plan->prints_and_exits) {
    auto locks = claim_cards(*plan);
    if (!locks) {
      eal->started_ = false;
      return std::unexpected(locks.error());
    }
    eal->locks_ = std::move(*locks);
    if (auto ok = eal->complete_af_xdp(*plan); !ok) {
      eal->started_ = false;
      return std::unexpected(ok.error());
    }
  }
  if (auto room = plan->shares_nothing ? Result<void>() : check_room_of_runtime_folder(); !room) {
    eal->started_ = false;
    return std::unexpected(room.error());
  }
  sched_getaffinity(0, sizeof eal->affinity_before_, &eal->affinity_before_);
  std::vector<std::string> words{"uroce"};
  words.insert(words.end(), plan->args.begin(), plan->args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const int opterr_before = opterr;
  opterr = 0;
  HeldOutput held(!plan->prints_and_exits);
  const int parsed = rte_eal_init(static_cast<int>(words.size()), argv.data());
  const int error = rte_errno;
  const std::string output = held.release();
  opterr = opterr_before;
  if (parsed < 0 && error == EALREADY) {
    eal->started_ = false;
    return fail(EALREADY, "EAL already runs in this process; a process can have only one uroce stack");
  }
  eal->runtime_folder_ = rte_eal_get_runtime_dir();
  eal->own_prefix_ = plan->own_prefix;
  remove_stale_runtime_folders(eal->runtime_folder_, std::filesystem::file_time_type::clock::now());
  // Now, and not at the end: a daemon has given up the right to by then.
  if (parsed >= 0 && plan->shares_nothing) remove_empty_runtime_folder(eal->runtime_folder_);
  if (parsed < 0) {
    eal->started_ = false;
    return fail(error != 0 ? error : EINVAL,
                fmt::format("EAL refuses the arguments \"{}\": {}", fmt::join(args, " "), reason_of(output)));
  }
  if (auto all = check_vdevs(*plan, output); !all) return std::unexpected(all.error());
  if (auto all = check_cards(*plan, output); !all) return std::unexpected(all.error());
  for (const std::string& line : lines_of(output)) {
    if (!contains_any(line, kHarmless)) write_line_to_stderr(line);
  }
  // dpdk-dumpcap needs this. It fails where processes share nothing (--in-memory, --no-shconf): no harm then.
  rte_pdump_init();
  unsigned lcore = 0;
  RTE_LCORE_FOREACH_WORKER(lcore) { eal->workers_.push_back(lcore); }
  return eal;
}

Eal::~Eal() {
  if (started_ && park_interrupt_thread()) {
    rte_pdump_uninit();
    rte_eal_cleanup();
  }
  sched_setaffinity(0, sizeof affinity_before_, &affinity_before_);
  if (!runtime_folder_.empty()) remove_runtime_folder(runtime_folder_, own_prefix_);
}

void Eal::unpin() const { sched_setaffinity(0, sizeof affinity_before_, &affinity_before_); }

}  // namespace uroce::glue
