#include "uroced/notify_socket.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace uroce::daemon {

namespace {

constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostDescriptors = 253;  // SCM_MAX_FD of the kernel

std::unexpected<Error> notify_socket_failed(std::string_view call) {
  return fail(errno, fmt::format("the supervisor's socket: {}: {}", call, std::strerror(errno)));
}

/// `header`: a message as recvmsg() left it.
void take_control(msghdr& header, NotifySocket::Message& out) {
  for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET) continue;
    const std::size_t bytes = one->cmsg_len - CMSG_LEN(0);
    if (one->cmsg_type == SCM_CREDENTIALS && bytes == sizeof(ucred)) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(one), sizeof sender);
      out.process = sender.pid;
      out.user = sender.uid;
    }
    if (one->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(one) + at, sizeof fd);
      out.fds.emplace_back(fd);
    }
  }
}

}  // namespace

Result<NotifySocket> NotifySocket::open() {
  message::Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return notify_socket_failed("socket");
  const int on = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return notify_socket_failed("SO_PASSCRED");
  // Without a name the kernel chooses one that is free.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), any, sizeof address.sun_family) != 0) return notify_socket_failed("bind");
  socklen_t length = sizeof address;
  if (getsockname(fd.get(), any, &length) != 0) return notify_socket_failed("getsockname");
  const std::size_t begin = offsetof(sockaddr_un, sun_path) + 1;
  return NotifySocket(std::move(fd), "@" + std::string(address.sun_path + 1, length - begin));
}

std::optional<NotifySocket::Message> NotifySocket::receive() {
  for (;;) {
    char text[kMostBytes];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMostDescriptors * sizeof(int))];
    iovec part{.iov_base = text, .iov_len = sizeof text};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    Message out;
    take_control(header, out);
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) continue;
    out.text.assign(text, static_cast<std::size_t>(got));
    return out;
  }
}

}  // namespace uroce::daemon
