#include "pmd_glue/kernel_stack.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "net/address.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/port.h"

namespace uroce::glue {

namespace {

constexpr uint16_t kRocePort = 4791;

sockaddr_storage socket_address(const Gid& gid, unsigned interface, socklen_t& length) {
  sockaddr_storage out{};
  if (gid.is_ipv4()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(out);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(kRocePort);
    v4.sin_addr.s_addr = htonl(gid.ipv4());
    length = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(out);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(kRocePort);
    std::memcpy(&v6.sin6_addr, gid.bytes.data(), gid.bytes.size());
    if (net::is_link_local(gid)) v6.sin6_scope_id = interface;
    length = sizeof v6;
  }
  return out;
}

std::string silent_name(const std::string& device, const Gid& gid) {
  return fmt::format("{} silence {}", device, net::to_text(gid));
}

/// The GID of an interface's address; nullopt for other families.
std::optional<Gid> gid_of(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    return Gid::from_ipv4(ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  Gid gid;
  std::memcpy(gid.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, gid.bytes.size());
  return gid;
}

/// The kernel's interface with this address, preferably `interface`; empty when none has it.
std::string owner_of(const Gid& gid, const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, freeifaddrs);
  std::string owner;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (gid_of(one->ifa_addr) != gid) continue;
    if (one->ifa_name == interface) return interface;
    // A link-local address belongs only to its link.
    if (!net::is_link_local(gid)) owner = one->ifa_name;
  }
  return owner;
}

bool forwards(const std::string& interface, bool ipv4) {
  std::ifstream file(fmt::format("/proc/sys/net/{}/conf/{}/forwarding", ipv4 ? "ipv4" : "ipv6", interface));
  return file.get() == '1';
}

}  // namespace

KernelStack::KernelStack(const Port& port, bool shared, uint32_t vlan) : port_(port), shared_(shared) {
  char text[IF_NAMESIZE] = "";
  const unsigned interface = port.interface_index();
  if (interface == 0 || if_indextoname(interface, text) == nullptr) return;
  interface_ = interface;
  interface_name_ = text;
  claims_.emplace(interface_, interface_name_, vlan);
}

KernelStack::~KernelStack() {
  for (const auto& [gid, fd] : sockets_) {
    if (fd >= 0) close(fd);
  }
}

std::string KernelStack::taken(const Gid& gid, const ClaimHolder& holder) const {
  std::string who = "another program of uroce";
  if (holder.pid == getpid()) {
    who = "another port of this program";
  } else if (holder.pid != 0) {
    who += fmt::format(" (process {})", holder.pid);
  }
  return fmt::format("{} on interface {} is in use by {}", net::to_text(gid), interface_name_, who);
}

Result<std::vector<Gid>> KernelStack::claim(std::span<const Gid> gids) {
  const std::lock_guard lock(mutex_);
  std::vector<Gid> ours;
  std::string reason;
  for (const Gid& gid : gids) {
    if (claims_ && inherited_ != nullptr) claims_->inherit(*inherited_, inherited_as_, gid);
    const auto holder = claims_ ? claims_->claim(gid) : std::nullopt;
    if (!holder) {
      ours.push_back(gid);
      continue;
    }
    reason = taken(gid, *holder);
    if (!net::is_link_local(gid)) {
      ours.clear();
      break;
    }
    if (told_.insert(gid).second)
      note(fmt::format("port {}: {}; the device does without", port_.name(), reason), NoteLevel::info);
  }
  if (!ours.empty() || reason.empty()) return ours;
  give_up_others();
  return fail(EADDRINUSE, fmt::format("port {}: {}; end that one, use its devices if it is a daemon, or give this port "
                                      "an address of its own (--address, or device.addresses)",
                                      port_.name(), reason));
}

void KernelStack::unclaim() {
  const std::lock_guard lock(mutex_);
  give_up_others();
}

/// Claims that no set address needs.
void KernelStack::give_up_others() {
  if (!claims_) return;
  std::vector<Gid> set;
  for (const auto& [gid, fd] : sockets_) set.push_back(gid);
  claims_->keep(set);
}

std::vector<Gid> KernelStack::set_addresses(std::span<const Gid> gids) {
  const std::lock_guard lock(mutex_);
  std::vector<Gid> ours(gids.begin(), gids.end());
  if (interface_ == 0) return ours;
  std::erase_if(ours, [&](const Gid& gid) {
    const auto holder = claims_->claim(gid);
    if (!holder) return false;
    if (told_.insert(gid).second)
      note(
          fmt::format("port {}: {}; the device does without until it starts again", port_.name(), taken(gid, *holder)));
    return true;
  });
  claims_->keep(ours);
  std::erase_if(sockets_, [&](const auto& entry) {
    if (std::ranges::find(ours, entry.first) != ours.end()) return false;
    if (entry.second >= 0) close(entry.second);
    return true;
  });
  for (const Gid& gid : ours) {
    if (sockets_.contains(gid)) continue;
    silence(gid);
    if (!shared_) look_for_clash(gid);
  }
  return ours;
}

// The sockets of link-local addresses are bound to the interface as well, and the kernel does not move them.
void KernelStack::follow_interface() {
  const std::lock_guard lock(mutex_);
  if (interface_ == 0) return;
  if (const unsigned index = port_.interface_index(); index != 0) interface_ = index;
  claims_->set_index(interface_);
  for (const auto& [gid, fd] : sockets_) {
    if (!net::is_link_local(gid)) continue;
    if (fd >= 0) close(fd);
    silence(gid);
  }
}

void KernelStack::silence(const Gid& gid) {
  const bool ipv4 = gid.is_ipv4();
  int& fd = sockets_[gid];
  fd = -1;
  if (port_.carries_roce_alone()) return;  // its own socket is there
  if (fd = inherited_socket(gid); fd >= 0) return;
  fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;  // this kernel lacks the address family, so it answers nothing
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  // Otherwise the kernel cuts super-frames up for the socket, only to drop the pieces. This also makes the kernel join
  // RoCE frames of one flow on arrival (GRO), which only some ports can take.
  if (port_.receives_super_frames()) setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on);
  setsockopt(fd, ipv4 ? SOL_IP : SOL_IPV6, ipv4 ? IP_FREEBIND : IPV6_FREEBIND, &on, sizeof on);
  if (!ipv4) setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &on, sizeof on);
  socklen_t length = 0;
  const sockaddr_storage address = socket_address(gid, interface_, length);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return;
  if (errno == EADDRINUSE) {
    note(
        fmt::format("port {}: UDP port {} of {} is in use in the kernel, by rxe or by another program of uroce; unload "
                    "rxe (modprobe -r rdma_rxe), end the other program, or give the port another interface",
                    port_.name(), kRocePort, net::to_text(gid)));
  }
  close(fd);
  fd = -1;
}

void KernelStack::lend(message::Belongings& belongings, const std::string& device) {
  const std::lock_guard lock(mutex_);
  if (claims_) claims_->lend(belongings, device);
  for (const auto& [gid, fd] : sockets_) belongings.lend(silent_name(device, gid), fd);
}

void KernelStack::begin_inheriting(message::Belongings& belongings, std::string device) {
  inherited_ = &belongings;
  inherited_as_ = std::move(device);
}

void KernelStack::end_inheriting() { inherited_ = nullptr; }

void KernelStack::become_holder() {
  const std::lock_guard lock(mutex_);
  if (claims_) claims_->become_holder();
}

int KernelStack::inherited_socket(const Gid& gid) {
  if (inherited_ == nullptr) return -1;
  message::Fd fd = inherited_->take(silent_name(inherited_as_, gid));
  socklen_t length = 0;
  const sockaddr_storage address = socket_address(gid, interface_, length);
  if (!message::is_socket(fd.get(), address.ss_family, SOCK_DGRAM)) return -1;
  return message::is_bound_to(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) ? fd.release() : -1;
}

void KernelStack::look_for_clash(const Gid& gid) const {
  const std::string owner = owner_of(gid, interface_name_);
  const std::string address = net::to_text(gid);
  if (owner.empty()) {
    if (net::is_link_local(gid) || !forwards(interface_name_, gid.is_ipv4())) return;
    return note(
        fmt::format("port {}: the kernel forwards frames from {}, also those for {}, and redirects their senders; turn "
                    "forwarding off with: sysctl -w net.{}.conf.{}.forwarding=0",
                    port_.name(), interface_name_, address, gid.is_ipv4() ? "ipv4" : "ipv6", interface_name_));
  }
  if (owner != interface_name_) {
    return note(
        fmt::format("port {}: the kernel has {} on {}, and answers for it on {}; give the device another address "
                    "(device.addresses)",
                    port_.name(), address, owner, interface_name_));
  }
  if (port_.driver() == "net_tap") {
    return note(
        fmt::format("port {}: the kernel, at the other end of {}, also has {}; give one of the two another address",
                    port_.name(), owner, address));
  }
  // Every interface with IPv6 has a link-local address.
  if (net::is_link_local(gid)) return;
  note(fmt::format(
      "port {}: the kernel also has {} on {}, so it keeps everything but RoCE, and ping is answered twice; to avoid "
      "that, leave all addresses to the kernel (device.addresses = \"kernel\"), or give the device one of its own",
      port_.name(), address, owner));
}

}  // namespace uroce::glue
