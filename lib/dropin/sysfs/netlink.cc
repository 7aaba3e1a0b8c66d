// NETLINK_RDMA sockets: a connection to uroce-run, which looks to the program like one to the kernel. None is
// remembered: a Unix socket that is spoken of in netlink's terms can be no other. sendto() and sendmsg() need no part
// here, because a connected packet socket ignores the address.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
// As in redirect.cc, with which it may be compiled as one.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "dropin/sysfs/view_socket.h"

namespace {

using uroce::dropin::connect_to_view;
using uroce::dropin::is_of_view;

/// The C library's function, looked up once: programs receive messages often.
template <class Function>
Function* next_of(std::atomic<Function*>& known, const char* name) {
  Function* found = known.load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  known.store(found, std::memory_order_relaxed);
  return found;
}

/// Gives as much of the address as there is room for, like the kernel.
void give_address(sockaddr* out, socklen_t room, uint32_t port) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = port;
  std::memcpy(out, &address, std::min<std::size_t>(room, sizeof address));
}

}  // namespace

#define NEXT_ONCE(name)                                             \
  ([] {                                                             \
    static constinit std::atomic<decltype(&(name))> known{nullptr}; \
    return next_of(known, #name);                                   \
  }())

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && std::getenv("UROCE_SYSFS") != nullptr) {
    const int fd = connect_to_view();
    if (fd >= 0) {
      if ((type & SOCK_CLOEXEC) == 0) fcntl(fd, F_SETFD, 0);
      if ((type & SOCK_NONBLOCK) != 0) fcntl(fd, F_SETFL, O_NONBLOCK);
      return fd;
    }
  }
  return NEXT_ONCE(socket)(domain, type, protocol);
}

int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  const bool netlink = address != nullptr && length >= sizeof(sa_family_t) && address->sa_family == AF_NETLINK;
  if (netlink && is_of_view(fd)) return 0;
  return NEXT_ONCE(bind)(fd, address, length);
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t length) noexcept {
  if (level == SOL_NETLINK && is_of_view(fd)) return 0;
  return NEXT_ONCE(setsockopt)(fd, level, option, value, length);
}

int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  const socklen_t room = length != nullptr ? *length : 0;
  const int result = NEXT_ONCE(getsockname)(fd, address, length);
  if (result != 0 || room < sizeof(sa_family_t) || address->sa_family != AF_UNIX || !is_of_view(fd)) return result;
  give_address(address, room, static_cast<uint32_t>(getpid()));
  *length = sizeof(sockaddr_nl);
  return 0;
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const socklen_t room = message != nullptr && message->msg_name != nullptr ? message->msg_namelen : 0;
  const ssize_t result = NEXT_ONCE(recvmsg)(fd, message, flags);
  if (result <= 0 || room < sizeof(sockaddr_nl)) return result;
  auto* const name = static_cast<sockaddr*>(message->msg_name);
  if (name->sa_family != AF_UNIX || !is_of_view(fd)) return result;
  give_address(name, room, 0);  // the kernel's
  message->msg_namelen = sizeof(sockaddr_nl);
  return result;
}

}  // extern "C"
