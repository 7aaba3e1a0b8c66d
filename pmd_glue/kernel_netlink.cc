#include "pmd_glue/kernel_netlink.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/address.h"

namespace uroce::glue {

namespace {

constexpr std::size_t kLargestDatagram = 65536;
constexpr int kNewsBytes = 1 << 20;  // the kernel's limit (net.core.rmem_max) may be less
constexpr uint16_t kDiscardPort = 9;
constexpr rtnetlink_groups kGroups[] = {RTNLGRP_LINK,        RTNLGRP_NEIGH,      RTNLGRP_IPV4_IFADDR,
                                        RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
                                        RTNLGRP_IPV4_RULE,   RTNLGRP_IPV6_RULE,  RTNLGRP_NEXTHOP};

std::unexpected<Error> failed(std::string_view call) {
  const int code = errno;
  return fail(code, fmt::format("{}: {}", call, std::strerror(code)));
}

/// A UDP socket that receives nothing; -1 where the kernel lacks the address family.
int mute_socket(int family) {
  const int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  return fd;
}

template <class Info>
msghdr with_control(std::span<std::byte> room, int level, int type, const Info& info) {
  msghdr message{};
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(sizeof info);
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(sizeof info);
  std::memcpy(CMSG_DATA(control), &info, sizeof info);
  return message;
}

template <class Address>
int send_nothing(int fd, msghdr message, Address address) {
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

}  // namespace

Result<std::unique_ptr<KernelNetlink>> KernelNetlink::open(uint32_t interface) {
  constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
  Socket asking(mnl_socket_open2(NETLINK_ROUTE, kFlags), mnl_socket_close);
  Socket news(mnl_socket_open2(NETLINK_ROUTE, kFlags), mnl_socket_close);
  if (!asking || !news) return failed("a netlink socket");
  if (mnl_socket_bind(asking.get(), 0, MNL_SOCKET_AUTOPID) != 0) return failed("a netlink socket's bind()");
  if (mnl_socket_bind(news.get(), 0, MNL_SOCKET_AUTOPID) != 0) return failed("a netlink socket's bind()");
  const int fd = mnl_socket_get_fd(news.get());
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kNewsBytes, sizeof kNewsBytes);
  for (const int group : kGroups) {
    // Kernels before 5.3 know no next hops of their own.
    if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0 && group != RTNLGRP_NEXTHOP)
      return failed("NETLINK_ADD_MEMBERSHIP");
  }
  return std::unique_ptr<KernelNetlink>(new KernelNetlink(interface, std::move(asking), std::move(news)));
}

KernelNetlink::KernelNetlink(uint32_t interface, Socket asking, Socket news)
    : interface_(interface),
      asking_(std::move(asking)),
      news_(std::move(news)),
      buffer_(kLargestDatagram),
      knocker4_(mute_socket(AF_INET)),
      knocker6_(mute_socket(AF_INET6)) {}

KernelNetlink::~KernelNetlink() {
  for (const int fd : {knocker4_, knocker6_}) {
    if (fd >= 0) close(fd);
  }
  for (const auto& [group, fd] : groups_) close(fd);
}

int KernelNetlink::news_descriptor() const { return mnl_socket_get_fd(news_.get()); }

void KernelNetlink::ask(std::span<const std::byte> request) {
  // A request that fails here has no answer, as one whose answer is lost.
  [[maybe_unused]] const auto sent = mnl_socket_sendto(asking_.get(), request.data(), request.size());
}

bool KernelNetlink::receive(int limit, const Take& answers, const Take& news) {
  const bool all_answers = receive(asking_.get(), limit, answers);
  return receive(news_.get(), limit, news) && all_answers;
}

bool KernelNetlink::receive(const mnl_socket* socket, int limit, const Take& take) {
  bool whole = true;
  for (int i = 0; i < limit; ++i) {
    sockaddr_nl sender{};
    socklen_t length = sizeof sender;
    const auto size = recvfrom(mnl_socket_get_fd(socket), buffer_.data(), buffer_.size(), MSG_TRUNC,
                               reinterpret_cast<sockaddr*>(&sender), &length);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == ENOBUFS) {
      whole = false;
      continue;
    }
    if (size < 0) break;
    // Another program with CAP_NET_ADMIN can send here as well.
    if (length != sizeof sender || sender.nl_pid != 0) continue;
    if (static_cast<std::size_t>(size) > buffer_.size()) {
      whole = false;
    } else {
      take(std::span(buffer_).first(static_cast<std::size_t>(size)));
    }
  }
  return whole;
}

int KernelNetlink::knock(const Gid& neighbour) const {
  alignas(cmsghdr) std::byte room[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
  if (neighbour.is_ipv4()) {
    in_pktinfo info{};
    info.ipi_ifindex = static_cast<int>(interface_);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    to.sin_addr.s_addr = htonl(neighbour.ipv4());
    return send_nothing(knocker4_, with_control(room, SOL_IP, IP_PKTINFO, info), to);
  }
  in6_pktinfo info{};
  info.ipi6_ifindex = interface_;
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  std::memcpy(&to.sin6_addr, neighbour.bytes.data(), neighbour.bytes.size());
  if (net::is_link_local(neighbour)) to.sin6_scope_id = interface_;
  return send_nothing(knocker6_, with_control(room, SOL_IPV6, IPV6_PKTINFO, info), to);
}

Result<void> KernelNetlink::join(const Gid& group) {
  const int fd = mute_socket(group.is_ipv4() ? AF_INET : AF_INET6);
  if (fd < 0) return failed("socket()");
  int result = 0;
  if (group.is_ipv4()) {
    ip_mreqn request{};
    request.imr_multiaddr.s_addr = htonl(group.ipv4());
    request.imr_ifindex = static_cast<int>(interface_);
    result = setsockopt(fd, SOL_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
  } else {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
    request.ipv6mr_interface = interface_;
    result = setsockopt(fd, SOL_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
  }
  if (result != 0) {
    auto error = failed("a membership");
    close(fd);
    return error;
  }
  const auto [at, added] = groups_.emplace(group, fd);
  if (!added) close(fd);
  return {};
}

void KernelNetlink::move_to(uint32_t interface) {
  interface_ = interface;
  for (const auto& [group, fd] : std::exchange(groups_, {})) {
    close(fd);
    (void)join(group);
  }
}

void KernelNetlink::leave(const Gid& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  close(found->second);
  groups_.erase(found);
}

}  // namespace uroce::glue
