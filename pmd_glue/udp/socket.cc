#include "pmd_glue/udp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "message/belongings.h"
#include "pmd_glue/kif/socket.h"
#include "wire/headers.h"

namespace uroce::glue::udp {

namespace {

// linux/in6.h, Linux 4.20.
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

bool set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value) == 0; }

std::unexpected<Error> failed(const std::string& interface, std::string_view what) {
  const int code = errno;
  return fail(code, fmt::format("interface {}: {}: {}", interface, what, std::strerror(code)));
}

}  // namespace

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      index_(other.index_),
      has_ipv6_(other.has_ipv6_),
      groups_(std::move(other.groups_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(index_, other.index_);
  std::swap(has_ipv6_, other.has_ipv6_);
  std::swap(groups_, other.groups_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Result<Socket> Socket::make(const std::string& interface) {
  Socket out;
  constexpr int kType = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  out.fd_ = socket(AF_INET6, kType, 0);
  if (out.fd_ < 0 && errno == EAFNOSUPPORT) {
    out.has_ipv6_ = false;
    out.fd_ = socket(AF_INET, kType, 0);
  }
  if (out.fd_ < 0) return failed(interface, "cannot open a UDP socket");
  out.index_ = if_nametoindex(interface.c_str());
  if (auto ok = out.set_up_sending(interface); !ok) return std::unexpected(ok.error());
  return out;
}

Result<Socket> Socket::open(const std::string& interface) {
  auto out = make(interface);
  if (!out) return out;
  if (auto ok = out->set_up_receiving(interface); !ok) return std::unexpected(ok.error());
  if (out->bind_to(wire::kUdpPort)) return out;
  if (errno != EADDRINUSE) return failed(interface, "cannot bind a UDP socket");
  return fail(EADDRINUSE,
              fmt::format("interface {}: UDP port {} is in use, by rxe or by another program of uroce; unload "
                          "rxe (modprobe -r rdma_rxe), end the other program, or name another interface",
                          interface, wire::kUdpPort));
}

Result<Socket> Socket::adopt(message::Fd fd, const std::string& interface) {
  char name[IFNAMSIZ + 1] = "";
  socklen_t length = IFNAMSIZ;
  Socket out;
  out.fd_ = fd.release();
  out.index_ = if_nametoindex(interface.c_str());
  out.has_ipv6_ = message::is_socket(out.fd_, AF_INET6, SOCK_DGRAM);
  if ((out.has_ipv6_ || message::is_socket(out.fd_, AF_INET, SOCK_DGRAM)) && out.port() != 0 &&
      getsockopt(out.fd_, SOL_SOCKET, SO_BINDTODEVICE, name, &length) == 0 && name == interface) {
    return out;
  }
  return fail(EINVAL, fmt::format("interface {}: the running daemon passed no UDP socket on it", interface));
}

uint16_t Socket::port() const {
  sockaddr_in6 address{};  // the port stands at the same place in a sockaddr_in
  socklen_t length = sizeof address;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.sin6_port);
}

// The kernel gives errors that ICMP reports to connected sockets alone.
Result<Socket> Socket::open_to_send(const std::string& interface, uint16_t port) {
  auto out = make(interface);
  if (!out) return out;
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  if (setsockopt(out->fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
    return failed(interface, "cannot close a UDP socket to what arrives");
  if (!out->bind_to(port)) return failed(interface, fmt::format("cannot bind a socket to UDP port {}", port));
  return out;
}

Result<void> Socket::set_up_sending(const std::string& interface) const {
  if (setsockopt(fd_, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size())) != 0) {
    return failed(interface, errno == EPERM ? "cannot bind a UDP socket to it without CAP_NET_RAW before Linux 5.7"
                                            : "cannot bind a UDP socket to it");
  }
  bool all = set(fd_, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);  // no fragments
  if (has_ipv6_) {
    all = all && set(fd_, SOL_IPV6, IPV6_V6ONLY, 0) && set(fd_, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  }
  if (!all) return failed(interface, "cannot set up a UDP socket");
  // Not needed: without it, own datagrams to a group come back.
  set(fd_, SOL_IP, IP_MULTICAST_LOOP, 0);
  if (has_ipv6_) set(fd_, SOL_IPV6, IPV6_MULTICAST_LOOP, 0);
  kif::ask_for_send_buffer(fd_);
  return {};
}

Result<void> Socket::set_up_receiving(const std::string& interface) const {
  // The headers of what arrives.
  bool all = set(fd_, SOL_IP, IP_PKTINFO, 1) && set(fd_, SOL_IP, IP_RECVTOS, 1) && set(fd_, SOL_IP, IP_RECVTTL, 1);
  if (has_ipv6_) {
    all = all && set(fd_, SOL_IPV6, IPV6_RECVPKTINFO, 1) && set(fd_, SOL_IPV6, IPV6_RECVTCLASS, 1) &&
          set(fd_, SOL_IPV6, IPV6_RECVHOPLIMIT, 1) &&
          set(fd_, SOL_UDP, UDP_NO_CHECK6_RX, 1);  // RoCE has no UDP checksum (IBTA vol. 1, A17.3.1)
  }
  if (!all) return failed(interface, "cannot set up a UDP socket");
  // None of these is needed: without them datagrams come one by one, uncounted losses, and groups of other programs.
  set(fd_, SOL_UDP, UDP_GRO, 1);
  set(fd_, SOL_SOCKET, SO_RXQ_OVFL, 1);
  set(fd_, SOL_IP, IP_MULTICAST_ALL, 0);
  if (has_ipv6_) set(fd_, SOL_IPV6, IPV6_MULTICAST_ALL, 0);
  kif::ask_for_receive_buffer(fd_);
  return {};
}

// False: errno tells why not.
bool Socket::bind_to(uint16_t port) const {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  return (has_ipv6_ ? bind(fd_, reinterpret_cast<const sockaddr*>(&six), sizeof six)
                    : bind(fd_, reinterpret_cast<const sockaddr*>(&four), sizeof four)) == 0;
}

uint32_t Socket::receive_buffer() const { return kif::receive_buffer_of(fd_); }

// A socket of the daemon before may be a member already: EADDRINUSE.
bool Socket::change_membership(const Gid& group, bool join) const {
  if (group.is_ipv4()) {
    ip_mreqn request{};
    request.imr_multiaddr.s_addr = htonl(group.ipv4());
    request.imr_ifindex = static_cast<int>(index_);
    return setsockopt(fd_, SOL_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request) == 0 ||
           (join && errno == EADDRINUSE);
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
  request.ipv6mr_interface = index_;
  return setsockopt(fd_, SOL_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request, sizeof request) == 0 ||
         (join && errno == EADDRINUSE);
}

std::set<Gid> Socket::receive_groups(std::span<const Gid> groups) {
  const std::set<Gid> wanted(groups.begin(), groups.end());
  std::erase_if(groups_, [&](const Gid& group) {
    if (wanted.contains(group)) return false;
    change_membership(group, false);
    return true;
  });
  std::set<Gid> refused;
  for (const Gid& group : wanted) {
    if (groups_.contains(group)) continue;
    if (change_membership(group, true)) {
      groups_.insert(group);
    } else {
      refused.insert(group);
    }
  }
  return refused;
}

Result<void> Socket::replace_by(Socket fresh, const std::string& interface) {
  if (dup3(fresh.fd_, fd_, O_CLOEXEC) < 0) return failed(interface, "cannot replace a UDP socket");
  index_ = fresh.index_;
  groups_ = std::move(fresh.groups_);
  return {};
}

}  // namespace uroce::glue::udp
