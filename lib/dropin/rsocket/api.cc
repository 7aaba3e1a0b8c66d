// The calls of <rdma/rsocket.h> (rsocket(7)). Each finds its socket by number.
#include <fcntl.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstdarg>

#include "base/no_cancel.h"
#include "dropin/common/report.h"
#include "dropin/rsocket/datagram.h"
#include "dropin/rsocket/repoll.h"
#include "dropin/rsocket/stream.h"

using namespace uroce::dropin;
using namespace uroce::dropin::rsocket;

namespace {

/// Runs `call` on the socket; EBADF when there is none.
template <class Call>
auto with(int fd, Call call) -> decltype(call(std::declval<Socket&>())) {
  const auto socket = table::find(fd);
  if (socket != nullptr) return call(*socket);
  errno = EBADF;
  return static_cast<decltype(call(std::declval<Socket&>()))>(-1);
}

ssize_t receive(int fd, std::span<const iovec> to, int flags, sockaddr* from = nullptr, socklen_t* length = nullptr) {
  return with(fd, [&](Socket& socket) { return socket.receive(IoCursor(to), flags, from, length); });
}

ssize_t send(int fd, std::span<const iovec> from, int flags, const sockaddr* to = nullptr, socklen_t length = 0) {
  return with(fd, [&](Socket& socket) { return socket.send(IoCursor(from), flags, to, length); });
}

std::span<const iovec> buffers(const iovec* first, int count) {
  return {first, static_cast<std::size_t>(count > 0 ? count : 0)};
}

iovec buffer(const void* data, std::size_t length) { return {const_cast<void*>(data), length}; }

bool served(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB) return false;
  if (type == SOCK_STREAM) return protocol == 0 || protocol == IPPROTO_TCP;
  return type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
}

}  // namespace

extern "C" {

// SOCK_CLOEXEC needs nothing: a program that is executed cannot use the socket, and its descriptor closes in any case.
int rsocket(int domain, int type_and_flags, int protocol) {
  const uroce::NoCancel guard;
  const int type = type_and_flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (!served(domain, type, protocol)) return minus_one(ENOTSUP);
  std::shared_ptr<Socket> made;
  if (type == SOCK_STREAM) {
    made = Stream::make(domain);
  } else {
    made = Datagram::make(domain);
  }
  if (made == nullptr) return -1;
  if ((type_and_flags & SOCK_NONBLOCK) != 0) made->status_flags = O_NONBLOCK;
  table::add(made);
  return made->fd();
}

int rbind(int fd, const sockaddr* address, socklen_t length) {
  return with(fd, [&](Socket& socket) { return socket.bind(address, length); });
}

int rlisten(int fd, int backlog) {
  return with(fd, [&](Socket& socket) { return socket.listen(backlog); });
}

int raccept(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Socket& socket) { return socket.accept(address, length); });
}

int rconnect(int fd, const sockaddr* address, socklen_t length) {
  return with(fd, [&](Socket& socket) { return socket.connect(address, length); });
}

int rshutdown(int fd, int how) {
  return with(fd, [&](Socket& socket) { return socket.shutdown(how); });
}

int rclose(int fd) {
  const uroce::NoCancel guard;
  if (repolls::remove(fd)) return 0;
  const auto socket = table::remove(fd);
  if (socket == nullptr) return minus_one(EBADF);
  repolls::forget(fd);
  socket->close();
  return 0;
}

ssize_t rrecv(int fd, void* data, size_t length, int flags) {
  const iovec one = buffer(data, length);
  return receive(fd, {&one, 1}, flags);
}

ssize_t rrecvfrom(int fd, void* data, size_t length, int flags, sockaddr* from, socklen_t* from_length) {
  const iovec one = buffer(data, length);
  return receive(fd, {&one, 1}, flags, from, from_length);
}

ssize_t rrecvmsg(int fd, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return minus_one(ENOTSUP);
  message->msg_flags = 0;
  socklen_t* length = message->msg_name != nullptr ? &message->msg_namelen : nullptr;
  return receive(fd, {message->msg_iov, message->msg_iovlen}, flags, static_cast<sockaddr*>(message->msg_name), length);
}

ssize_t rread(int fd, void* data, size_t length) { return rrecv(fd, data, length, 0); }

ssize_t rreadv(int fd, const iovec* first, int count) { return receive(fd, buffers(first, count), 0); }

ssize_t rsend(int fd, const void* data, size_t length, int flags) {
  const iovec one = buffer(data, length);
  return send(fd, {&one, 1}, flags);
}

ssize_t rsendto(int fd, const void* data, size_t length, int flags, const sockaddr* to, socklen_t to_length) {
  const iovec one = buffer(data, length);
  return send(fd, {&one, 1}, flags, to, to_length);
}

ssize_t rsendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) return minus_one(ENOTSUP);
  return send(fd, {message->msg_iov, message->msg_iovlen}, flags, static_cast<const sockaddr*>(message->msg_name),
              message->msg_namelen);
}

ssize_t rwrite(int fd, const void* data, size_t length) { return rsend(fd, data, length, 0); }

ssize_t rwritev(int fd, const iovec* first, int count) { return send(fd, buffers(first, count), 0); }

int rgetpeername(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Socket& socket) { return socket.peer_name(address, length); });
}

int rgetsockname(int fd, sockaddr* address, socklen_t* length) {
  return with(fd, [&](Socket& socket) { return socket.own_name(address, length); });
}

int rsetsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  return with(fd, [&](Socket& socket) { return socket.set_option(level, name, value, length); });
}

int rgetsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  return with(fd, [&](Socket& socket) { return socket.get_option(level, name, value, length); });
}

int rfcntl(int fd, int cmd, ...) {
  va_list arguments;
  va_start(arguments, cmd);
  const int flags = cmd == F_SETFL || cmd == F_SETFD ? va_arg(arguments, int) : 0;
  va_end(arguments);
  if (repolls::find(fd) != nullptr) return fcntl(fd, cmd, flags);  // librspreload asks so
  return with(fd, [&](Socket& socket) {
    if (cmd == F_GETFL) return socket.status_flags.load();
    if (cmd != F_SETFL) return minus_one(ENOTSUP);
    socket.status_flags = flags;
    return 0;
  });
}

off_t riomap(int fd, void* data, size_t length, int protection, int /*flags*/, off_t offset) {
  return with(fd, [&](Socket& socket) { return socket.map(data, length, protection, offset); });
}

int riounmap(int fd, void* data, size_t length) {
  return with(fd, [&](Socket& socket) { return socket.unmap(data, length); });
}

size_t riowrite(int fd, const void* data, size_t length, off_t offset, int flags) {
  const iovec one = buffer(data, length);
  return with(fd, [&](Socket& socket) { return socket.write_at(IoCursor({&one, 1}), offset, flags); });
}

}  // extern "C"
