#include "pmd_glue/kif/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "message/belongings.h"
#include "pmd_glue/kif/filter.h"

namespace uroce::glue::kif {

namespace {

// linux/if_packet.h of Debian 12 may lack the newest of them.
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

bool set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value) == 0; }

uint32_t buffer_of(int fd, int option) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  getsockopt(fd, SOL_SOCKET, option, &bytes, &length);
  return static_cast<uint32_t>(std::max(bytes, 0));
}

Result<void> failed(const std::string& interface, std::string_view what) {
  const int code = errno;
  std::string advice;
  if (code == EPERM || code == EACCES) advice = "; it needs CAP_NET_RAW";
  return fail(code, fmt::format("interface {}: {}: {}{}", interface, what, std::strerror(code), advice));
}

constexpr std::string_view kCannotSpread = "cannot spread frames over several sockets (PACKET_FANOUT)";

}  // namespace

uint32_t receive_buffer_of(int fd) { return buffer_of(fd, SO_RCVBUF); }

void ask_for_receive_buffer(int fd) {
  if (!set(fd, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBuffer)) set(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBuffer);
}

// The administrator's default may be larger (net.core.wmem_default).
void ask_for_send_buffer(int fd) {
  if (buffer_of(fd, SO_SNDBUF) >= 2 * kSendBuffer) return;
  if (!set(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSendBuffer)) set(fd, SOL_SOCKET, SO_SNDBUF, kSendBuffer);
}

// Bytes that the kernel will let wait in a socket, its overhead included; 0 if it does not tell. A socket of any kind
// shows it.
static uint32_t granted_receive_buffer() {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  ask_for_receive_buffer(fd);
  const uint32_t bytes = receive_buffer_of(fd);
  close(fd);
  return bytes;
}

uint32_t read_window_packets(uint32_t max_frame, uint32_t payload) {
  return std::max(1u, std::min(granted_receive_buffer() / 2 / max_frame, kReadBytes / payload));
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Result<Socket> Socket::open(const SocketOptions& options) {
  Socket out;
  // Protocol 0: nothing arrives until the filter is in place and the socket bound.
  out.fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (out.fd_ < 0) return std::unexpected(failed(options.interface, "cannot open a packet socket").error());
  if (auto ok = out.set_up(options); !ok) return std::unexpected(ok.error());
  if (auto ok = out.bind_to(options); !ok) return std::unexpected(ok.error());
  return out;
}

Result<Socket> Socket::adopt(message::Fd fd, const SocketOptions& options) {
  int headers = 0;
  socklen_t length = sizeof headers;
  Socket out;
  out.fd_ = fd.release();
  if (message::is_socket(out.fd_, AF_PACKET, SOCK_RAW) && (fcntl(out.fd_, F_GETFL) & O_NONBLOCK) != 0 &&
      getsockopt(out.fd_, SOL_PACKET, PACKET_VNET_HDR, &headers, &length) == 0 && headers != 0 &&
      out.interface_index() != 0 && out.interface_index() == if_nametoindex(options.interface.c_str())) {
    return out;
  }
  return fail(EINVAL, fmt::format("interface {}: the running daemon passed no packet socket on it", options.interface));
}

Result<void> Socket::set_up(const SocketOptions& options) const {
  if (!set(fd_, SOL_PACKET, PACKET_VNET_HDR, 1)) return failed(options.interface, "cannot set PACKET_VNET_HDR");
  auto filter = make_filter(options.vlan);
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (setsockopt(fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
    return failed(options.interface, "cannot attach the filter of RoCE packets");
  // Not PACKET_QDISC_BYPASS: on that way the kernel drops a super-frame that the card cannot cut up itself.
  // None of these is needed: without them, the socket hears itself, or holds less.
  set(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  ask_for_receive_buffer(fd_);
  ask_for_send_buffer(fd_);
  return {};
}

Result<void> Socket::bind_to(const SocketOptions& options) const {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(options.interface.c_str()));
  if (address.sll_ifindex == 0) return failed(options.interface, "not found");
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed(options.interface, "cannot bind a packet socket");
  // Neighbour discovery uses multicast, and programs join and leave groups at any time.
  packet_mreq membership{};
  membership.mr_ifindex = address.sll_ifindex;
  membership.mr_type = PACKET_MR_ALLMULTI;
  if (setsockopt(fd_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) != 0)
    return failed(options.interface, "cannot receive multicast frames");
  return {};
}

Result<void> Socket::share(const Socket* first, uint32_t sockets, const std::string& interface) const {
  if (first == nullptr) return begin_sharing(sockets, interface);
  int group = 0;  // with its kind
  socklen_t length = sizeof group;
  if (getsockopt(first->fd_, SOL_PACKET, PACKET_FANOUT, &group, &length) != 0)
    return failed(interface, "cannot find the group of the first socket");
  if (!set(fd_, SOL_PACKET, PACKET_FANOUT, group)) return failed(interface, kCannotSpread);
  return {};
}

// The kernel chooses the number of the group, so that several daemons on one interface do not share. A kernel
// before 4.3 runs no program and spreads flows by their ports: then engines hand frames over.
Result<void> Socket::begin_sharing(uint32_t sockets, const std::string& interface) const {
  constexpr int kFlags = PACKET_FANOUT_FLAG_UNIQUEID | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
  if (!set(fd_, SOL_PACKET, PACKET_FANOUT, (PACKET_FANOUT_CBPF | kFlags) << 16)) {
    if (!set(fd_, SOL_PACKET, PACKET_FANOUT, (PACKET_FANOUT_HASH | kFlags) << 16))
      return failed(interface, kCannotSpread);
    return {};
  }
  auto spread = make_spread(sockets);
  const sock_fprog program{static_cast<unsigned short>(spread.size()), spread.data()};
  if (setsockopt(fd_, SOL_PACKET, PACKET_FANOUT_DATA, &program, sizeof program) != 0)
    return failed(interface, kCannotSpread);
  return {};
}

Result<void> Socket::bind_again(const SocketOptions& options) const { return bind_to(options); }

Result<void> Socket::replace_by(Socket fresh, const std::string& interface) const {
  if (dup3(fresh.fd_, fd_, O_CLOEXEC) < 0) return failed(interface, "cannot replace a packet socket");
  return {};
}

unsigned Socket::interface_index() const {
  sockaddr_ll address{};
  socklen_t length = sizeof address;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return static_cast<unsigned>(std::max(address.sll_ifindex, 0));  // -1 after the interface
}

uint32_t Socket::receive_buffer() const { return receive_buffer_of(fd_); }

uint32_t Socket::take_lost() const {
  tpacket_stats statistics{};
  socklen_t length = sizeof statistics;
  if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) != 0) return 0;
  return statistics.tp_drops;
}

}  // namespace uroce::glue::kif
