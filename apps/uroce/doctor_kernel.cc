// Judges the part of the kernel for `uroce doctor`: rights, rxe, neighbours, io_uring.
#include "uroce/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "net/address.h"
#include "uroce/table.h"

namespace uroce::cli {

namespace {

constexpr uint64_t kReceiveBuffer = 32 << 20;  ///< that a port on an interface of the kernel asks for
constexpr std::size_t kNamedNeighbours = 4;

/// The device on an interface. One with addresses of its own does not name the interface, but has its Ethernet address.
const DeviceRow* device_on(const Facts& facts, const std::string& interface) {
  const auto port = std::ranges::find(facts.interfaces, interface, &InterfaceFacts::name);
  const EthAddr mac = port == facts.interfaces.end() ? EthAddr{} : port->mac;
  const auto found = std::ranges::find_if(facts.devices, [&](const DeviceRow& device) {
    return device.kernel_interface == interface || (mac != EthAddr{} && device.mac == mac);
  });
  return found == facts.devices.end() ? nullptr : &*found;
}

Finding judge_net_raw(const Facts& facts) {
  if (facts.packet_sockets)
    return {"capabilities", Verdict::good, "this user may open ports on interfaces of the kernel (CAP_NET_RAW)", ""};
  if (facts.daemon_error == 0) {
    return {"capabilities", Verdict::good,
            "this user may not open ports on interfaces of the kernel (CAP_NET_RAW), and needs not: the daemon does",
            ""};
  }
  return {"capabilities", Verdict::slow,
          "this user has no CAP_NET_RAW, so ports on interfaces of the kernel are UDP sockets, which carry RoCE alone",
          "where more is needed, start uroced as root, by systemd, or with CAP_NET_RAW"};
}

Finding judge_net_admin(const Facts& facts) {
  if (facts.large_buffers)
    return {"capabilities", Verdict::good, "this user may let many frames wait in the kernel (CAP_NET_ADMIN)", ""};
  if (facts.receive_buffer_limit >= kReceiveBuffer) {
    return {"capabilities", Verdict::good,
            "this user has no CAP_NET_ADMIN, and needs none: net.core.rmem_max lets enough frames wait", ""};
  }
  if (facts.daemon_error == 0) {
    return {"capabilities", Verdict::good,
            "this user may not let many frames wait in the kernel (CAP_NET_ADMIN), and needs not: the daemon receives",
            ""};
  }
  return {"capabilities", Verdict::slow,
          fmt::format("this user's ports on interfaces of the kernel may let {} of frames wait, and no more "
                      "(CAP_NET_ADMIN)",
                      bytes_text(2 * facts.receive_buffer_limit)),
          "start uroced as root, by systemd, or with CAP_NET_ADMIN; or sysctl -w net.core.rmem_max=33554432"};
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (std::size_t i = 0; i < std::min(parts.size(), kNamedNeighbours); ++i) out += (i == 0 ? "" : ", ") + parts[i];
  if (parts.size() > kNamedNeighbours) out += fmt::format(" and {} more", parts.size() - kNamedNeighbours);
  return out;
}

}  // namespace

std::vector<Finding> judge_capabilities(const Facts& facts) { return {judge_net_raw(facts), judge_net_admin(facts)}; }

std::vector<Finding> judge_kernel_roce(const Facts& facts) {
  std::vector<Finding> out;
  if (facts.network == NetworkSeen::hidden) return out;
  for (const KernelRoce& rxe : facts.kernel_roce) {
    const std::string remedy =
        fmt::format("rdma link delete {}, or give uroced another interface", printable(rxe.name));
    if (const DeviceRow* const device = device_on(facts, rxe.interface)) {
      out.push_back(
          {"rxe", Verdict::bad,
           fmt::format("the kernel's RoCE driver has {} on {}, too, and answers peers of device {} at UDP port "
                       "4791",
                       printable(rxe.name), printable(rxe.interface), printable(device->name)),
           remedy});
    } else {
      out.push_back(
          {"rxe", facts.daemon_error == 0 ? Verdict::good : Verdict::slow,
           fmt::format("the kernel's RoCE driver has {} on {} and takes UDP port 4791 there, so uroced cannot "
                       "have that interface",
                       printable(rxe.name), printable(rxe.interface)),
           facts.daemon_error == 0 ? "" : remedy});
    }
  }
  if (!facts.kernel_roce.empty()) return out;
  if (!facts.roce_port_taken) {
    return {{"rxe", Verdict::good,
             fmt::format("nothing else has UDP port 4791 {}",
                         facts.network == NetworkSeen::entered ? "in the daemon's network namespace" : "on this host"),
             ""}};
  }
  return {{"rxe", Verdict::slow, "another program has UDP port 4791 of all the kernel's addresses",
           fmt::format("look for it with {}, and end it", network_command(facts, "ss -Hulnp 'sport = 4791'"))}};
}

std::vector<Finding> judge_neighbours(const Facts& facts) {
  std::vector<Finding> out;
  for (const InterfaceFacts& port : facts.interfaces) {
    if (device_on(facts, port.name) == nullptr) continue;
    std::vector<std::string> peers, others;
    for (const Gid& gid : port.failed_neighbours) {
      const bool peer = std::ranges::find(facts.peers, gid) != facts.peers.end();
      (peer ? peers : others).push_back(net::to_text(gid));
    }
    const std::string topic = fmt::format("interface {}", printable(port.name));
    if (!peers.empty()) {
      out.push_back({topic, Verdict::bad,
                     fmt::format("queue pairs have peers that do not answer the kernel's search for their Ethernet "
                                 "address (FAILED): {}",
                                 joined(peers)),
                     "look whether the peer is up, on the same network and in the same VLAN, and has that address"});
    }
    if (!others.empty()) {
      out.push_back(
          {topic, Verdict::slow, fmt::format("the kernel found no Ethernet address of {} (FAILED)", joined(others)),
           fmt::format("where that is a peer or the gateway, look whether it is up and on the same network; "
                       "{} lists them",
                       network_command(facts, fmt::format("ip neigh show dev {} nud failed", printable(port.name))))});
    }
  }
  return out;
}

std::vector<Finding> judge_io_uring(const Facts& facts) {
  if (!facts.nvmf_installed) return {};
  if (facts.io_uring_error == 0 && facts.io_uring_disabled == 0)
    return {{"io_uring", Verdict::good, "uroce_nvmf can read and write disks by it", ""}};
  if (facts.io_uring_disabled > 0) {
    return {{"io_uring", Verdict::slow,
             fmt::format("the kernel allows it {} (kernel.io_uring_disabled is {}), so uroce_nvmf cannot serve disks",
                         facts.io_uring_disabled == 1 ? "to the privileged and one group only" : "to nobody",
                         facts.io_uring_disabled),
             facts.io_uring_disabled == 1
                 ? "add uroce_nvmf's group as kernel.io_uring_group, or sysctl -w kernel.io_uring_disabled=0"
                 : "sysctl -w kernel.io_uring_disabled=0"}};
  }
  return {
      {"io_uring", Verdict::slow,
       fmt::format("this user gets none ({}), so its uroce_nvmf cannot serve disks",
                   std::strerror(facts.io_uring_error)),
       "in a container, allow io_uring_setup in its filter of system calls; else use a kernel with CONFIG_IO_URING"}};
}

}  // namespace uroce::cli
