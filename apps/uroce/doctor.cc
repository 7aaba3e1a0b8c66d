#include "uroce/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "uroce/table.h"

namespace uroce::cli {

namespace {

constexpr int kFullMtu = 4200;     ///< of an interface, for a path MTU of 4096
constexpr uint32_t kHeaders = 84;  ///< the most around a packet's payload: IPv6, UDP, BTH, RETH, ICRC
constexpr std::pair<int, int> kSuperFrames{6, 2};

std::string_view name(Verdict verdict) {
  return verdict == Verdict::good ? "good" : verdict == Verdict::slow ? "slow" : "bad";
}

uint64_t counter(const Facts& facts, const std::string& device, std::string_view name) {
  const auto row = std::ranges::find(facts.counters, device, &CounterRow::device);
  if (row == facts.counters.end()) return 0;
  const auto found = std::ranges::find_if(row->counters, [&](const auto& one) { return one.first == name; });
  return found == row->counters.end() ? 0 : found->second;
}

const InterfaceFacts* interface_of(const Facts& facts, const DeviceRow& device) {
  const auto found = std::ranges::find(facts.interfaces, device.kernel_interface, &InterfaceFacts::name);
  return device.kernel_interface.empty() || found == facts.interfaces.end() ? nullptr : &*found;
}

Finding judge_mtu(const Facts& facts, const DeviceRow& device) {
  const uint32_t mtu = mtu_bytes(device.active_mtu);
  Finding out{.topic = fmt::format("device {}", device.name), .verdict = Verdict::good, .text = {}, .remedy = {}};
  out.text = fmt::format("its path MTU is {}", mtu);
  const InterfaceFacts* port = interface_of(facts, device);
  if (port != nullptr && port->mtu != 0 && static_cast<uint32_t>(port->mtu) < mtu + kHeaders) {
    out.verdict = Verdict::bad;
    out.text += fmt::format(", and the MTU of {} is {} bytes now: full packets are lost", port->name, port->mtu);
    out.remedy = fmt::format("{}, or restart uroced, which then takes a smaller path MTU",
                             network_command(facts, fmt::format("ip link set {} mtu {}", port->name, mtu + kHeaders)));
    return out;
  }
  if (mtu == mtu_bytes(Mtu::mtu4096)) return out;
  out.verdict = Verdict::slow;
  if (port != nullptr) out.text += fmt::format(", because the MTU of {} is {} bytes", port->name, port->mtu);
  if (!device.kernel_interface.empty()) {
    out.remedy = fmt::format(
        "where switches and peers allow it, {}, and restart uroced: packets then carry 4096 bytes",
        network_command(facts, fmt::format("ip link set {} mtu {}", printable(device.kernel_interface), kFullMtu)));
  } else {
    out.remedy =
        fmt::format("where switches and peers allow it, set device.mtu = {}: packets then carry 4096 bytes", kFullMtu);
  }
  return out;
}

void judge_sending(const DeviceRow& device, std::vector<Finding>& out) {
  const std::string topic = fmt::format("device {}", printable(device.name));
  if (device.sending == Sending::single_refused) {
    out.push_back({topic, Verdict::slow, "the kernel refused its super-frames, so that frames leave one by one",
                   "look whether the interface's driver is the newest; uroced tries again when it starts"});
  }
  if (device.sending == Sending::by_udp_socket) {
    out.push_back(
        {topic, Verdict::slow,
         "it sends and receives by a UDP socket, because uroced has no CAP_NET_RAW: RoCE alone, from few source ports",
         "where more is needed, give uroced CAP_NET_RAW"});
  }
  if (device.sending == Sending::single_by_choice) {
    out.push_back({topic, Verdict::slow, "its frames leave one by one, because of super_frames=no",
                   "where nothing forbids super-frames, leave super_frames=no out and restart uroced"});
  }
}

/// Counters that tell of a fault outside of uroce.
void judge_counters(const Facts& facts, const DeviceRow& device, std::vector<Finding>& out) {
  struct Sign {
    const char* counter;
    const char* text;
    const char* remedy;
  };
  constexpr Sign kSigns[] = {
      {"neighbour_failed", "times that nobody answered for an address",
       "look whether the peer is up, on the same network and in the same VLAN, and whether a gateway is set"},
      {"address_conflicts", "frames of others that claim an address of the device",
       "give each device an address of its own (device.addresses)"},
      {"drop_icrc", "packets dropped because of a wrong ICRC",
       "look for something between the peers that changes packets, or a faulty cable"},
      {"drop_vlan_mismatch", "packets dropped because their VLAN is not the port's",
       "set device.vlan as the peer and the switch have it"},
      {"kif_rx_lost", "frames lost because the kernel's receive buffer was full",
       "raise it: sysctl net.core.rmem_max=67108864, or give uroced CAP_NET_ADMIN"},
      {"port_buffers_missing", "times that no buffer was free", "give EAL more memory (-m)"},
  };
  for (const Sign& sign : kSigns) {
    const uint64_t count = counter(facts, device.name, sign.counter);
    if (count == 0) continue;
    out.push_back({fmt::format("device {}", device.name), Verdict::slow,
                   fmt::format("{} {} since uroced began ({})", count, sign.text, sign.counter), sign.remedy});
  }
}

}  // namespace

// A port on an interface has asked the kernel. Its release tells less: distributions bring features to older ones.
Finding judge_kernel(const Facts& facts) {
  Finding out{.topic = "kernel", .verdict = Verdict::good, .text = {}, .remedy = {}};
  out.text = fmt::format("Linux {}.{}", facts.kernel_major, facts.kernel_minor);
  const auto sends = [&](Sending how) {
    return std::ranges::find(facts.devices, how, &DeviceRow::sending) != facts.devices.end();
  };
  const bool by_release = std::pair(facts.kernel_major, facts.kernel_minor) >= kSuperFrames;
  if (!sends(Sending::single_by_kernel) && (by_release || sends(Sending::super_frames))) {
    out.text += " sends and receives runs of packets as one on its interfaces";
    return out;
  }
  out.verdict = Verdict::slow;
  out.text += " cannot send runs of packets as one through packet sockets";
  out.remedy = "where devices are on interfaces of the kernel, use Linux 6.2 or later";
  return out;
}

Finding judge_af_xdp(const Facts& facts) {
  if (facts.af_xdp) return {"AF_XDP", Verdict::good, "the kernel has it, for DPDK's net_af_xdp", ""};
  return {"AF_XDP", Verdict::slow, "the kernel has none, so DPDK's net_af_xdp does not work",
          "use device.interface, which needs none, or a kernel with CONFIG_XDP_SOCKETS"};
}

Finding judge_autogroup(const Facts& facts) {
  if (!facts.autogroup.value_or(false))
    return {"autogroups", Verdict::good, "the kernel does not group sessions when it shares CPUs", ""};
  return {"autogroups", Verdict::slow,
          "the kernel shares CPUs among sessions, and one that spins can keep an engine of another from its CPU",
          "where engines share CPUs with programs that spin: sysctl -w kernel.sched_autogroup_enabled=0"};
}

std::vector<Finding> judge_huge_pages(const Facts& facts) {
  std::vector<Finding> out;
  constexpr const char* kReserve = "reserve some: config/hugepages.sh, or hugeadm --pool-pages-min 2MB:512";
  bool any = false;
  for (const hugepages::HugePages& pages : facts.huge_pages) {
    if (pages.reserved == 0) continue;
    any = true;
    Finding one{.topic = "hugepages", .verdict = Verdict::good, .text = {}, .remedy = {}};
    one.text = fmt::format("{} of {} reserved, {} free", pages.reserved, bytes_text(pages.page_bytes), pages.free);
    if (pages.free == 0 && facts.daemon_error != 0) {
      one.verdict = Verdict::slow;
      one.remedy = "end the programs that have them, or reserve more with config/hugepages.sh";
    } else if (!pages.mounted) {
      one.verdict = Verdict::slow;
      one.text += ", and this user may use no hugetlbfs of that size";
      one.remedy = "hugeadm --create-mounts as root, or give EAL --in-memory";
    }
    out.push_back(std::move(one));
  }
  if (!any) {
    out.push_back({"hugepages", Verdict::slow,
                   facts.huge_pages.empty() ? "this kernel has none"
                                            : "none is reserved: engines run on 4 KiB pages, and "
                                              "cards without an IOMMU cannot be driven",
                   facts.huge_pages.empty() ? "" : kReserve});
  }
  return out;
}

Finding judge_daemon(const Facts& facts) {
  Finding out{.topic = "daemon", .verdict = Verdict::bad, .text = facts.daemon_text, .remedy = {}};
  if (facts.daemon_stopped) {
    const int id = facts.daemon_stopped->id;
    out.remedy = facts.daemon_stopped->traced ? "continue it in the debugger, or end the debugger"
                                              : fmt::format("kill -CONT {}, or restart uroced", id);
    return out;
  }
  if (facts.daemon_error != 0) return out;  // the error says what to do
  if (facts.daemon_version != facts.library_version) {
    out.verdict = Verdict::slow;
    out.text = fmt::format("uroced is {}, and this tool {}", printable(facts.daemon_version), facts.library_version);
    out.remedy = "restart uroced: systemctl restart uroced";
    return out;
  }
  out.verdict = Verdict::good;
  out.text = fmt::format("uroced {} serves {} device{}", facts.daemon_version, facts.devices.size(),
                         facts.devices.size() == 1 ? "" : "s");
  return out;
}

std::string network_command(const Facts& facts, std::string_view command) {
  if (facts.network == NetworkSeen::shared) return std::string(command);
  if (facts.daemon_process == 0) return fmt::format("in the daemon's container, {}", command);
  return fmt::format("nsenter -t {} -n {}", facts.daemon_process, command);
}

std::vector<Finding> judge_network(const Facts& facts) {
  const std::string daemon =
      facts.daemon_process == 0 ? "the daemon" : fmt::format("the daemon (process {})", facts.daemon_process);
  switch (facts.network) {
    case NetworkSeen::shared: return {};
    case NetworkSeen::entered:
      return {{"network", Verdict::good,
               fmt::format("{} is in another network namespace, and its interfaces are judged there", daemon), ""}};
    case NetworkSeen::hidden:
      return {{"network", Verdict::slow,
               fmt::format(
                   "{} is in another network namespace, into which this user cannot look, so its interfaces are not "
                   "judged",
                   daemon),
               facts.daemon_process == 0 ? "give uroce doctor in the daemon's container"
                                         : "as root, " + network_command(facts, "uroce doctor")}};
  }
  return {};
}

std::vector<Finding> judge_devices(const Facts& facts) {
  std::vector<Finding> out;
  for (const DeviceRow& device : facts.devices) {
    const std::string topic = fmt::format("device {}", printable(device.name));
    if (!device.link_up) {
      out.push_back({topic, Verdict::bad, "its link is down",
                     device.kernel_interface.empty()
                         ? "look at the cable, the switch, or the other end of a memif"
                         : network_command(facts, fmt::format("ip link set {} up, or look at the cable",
                                                              printable(device.kernel_interface)))});
    }
    if (std::ranges::all_of(device.gids, [](const Gid& gid) { return gid == Gid{}; })) {
      out.push_back(
          {topic, Verdict::bad, "it has no address, so nothing can connect",
           device.kernel_interface.empty()
               ? "set device.addresses"
               : network_command(facts, fmt::format("ip address add 192.0.2.1/24 dev {}, with an address of your "
                                                    "network",
                                                    printable(device.kernel_interface)))});
    }
    out.push_back(judge_mtu(facts, device));
    judge_sending(device, out);
    judge_counters(facts, device, out);
  }
  return out;
}

std::vector<Finding> judge_interfaces(const Facts& facts) {
  std::vector<Finding> out;
  for (const DeviceRow& device : facts.devices) {
    const InterfaceFacts* port = interface_of(facts, device);
    if (port == nullptr) continue;
    const std::string topic = fmt::format("interface {}", printable(port->name));
    if (port->udp_segmentation == false) {
      // The kernel allows that offload only beside the one of checksums.
      const bool checksums = port->checksums.value_or(true);
      out.push_back(
          {topic, Verdict::slow,
           fmt::format("the kernel cuts runs of packets up in software (tx-udp-segmentation is off{})",
                       checksums ? "" : ", because it needs the checksum offload, which is off"),
           fmt::format("where the card can, {}",
                       network_command(facts, fmt::format("ethtool -K {}{} tx-udp-segmentation on",
                                                          printable(port->name), checksums ? "" : " tx on")))});
    } else if (port->udp_segmentation == true) {
      out.push_back({topic, Verdict::good, "it takes runs of packets as one (tx-udp-segmentation)", ""});
    }
    if (port->scatter_gather == false) {
      out.push_back(
          {topic, Verdict::slow, "the kernel copies each run of packets into one piece (tx-scatter-gather is off)",
           fmt::format(
               "where the card can, {}",
               network_command(facts, fmt::format("ethtool -K {} tx-scatter-gather on", printable(port->name))))});
    }
  }
  return out;
}

std::vector<Finding> judge(const Facts& facts) {
  std::vector<Finding> out{judge_daemon(facts)};
  const auto add = [&out](std::vector<Finding> more) { std::ranges::move(more, std::back_inserter(out)); };
  add(judge_restart(facts));
  add(judge_network(facts));
  add(judge_devices(facts));
  add(judge_interfaces(facts));
  add(judge_neighbours(facts));
  add(judge_kernel_roce(facts));
  add(judge_huge_pages(facts));
  add(judge_capabilities(facts));
  add({judge_kernel(facts), judge_af_xdp(facts), judge_autogroup(facts)});
  add(judge_io_uring(facts));
  return out;
}

bool something_is_bad(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& one) { return one.verdict == Verdict::bad; });
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& one : findings) {
    out += fmt::format("{}  {}: {}.", name(one.verdict), one.topic, one.text);
    if (!one.remedy.empty()) out += fmt::format("\n      To do: {}.", one.remedy);
    out += '\n';
  }
  return out;
}

std::string findings_json(const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const Finding& one : findings) {
    all.push_back(Json{{"topic", one.topic},
                       {"verdict", name(one.verdict)},
                       {"text", one.text},
                       {"remedy", one.remedy.empty() ? Json() : Json(one.remedy)}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::cli
