#include "message/connection.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/no_cancel.h"
#include "message/protocol.h"

namespace uroce::message {
namespace {

std::unexpected<Error> socket_error(const char* what) {
  const int code = errno == EAGAIN || errno == EWOULDBLOCK ? ETIMEDOUT : errno;
  return fail(code, std::string(what) + ": " + std::strerror(code));
}

void set_timeout(int fd, int option, std::chrono::milliseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timeval value{.tv_sec = seconds.count(), .tv_usec = (timeout - seconds).count() * 1000};
  setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

// connect(2) waits for room in the listener's backlog, and heeds the timeout for sending (unix(7)). With one, a signal
// interrupts it whatever SA_RESTART says. False: errno says why, EAGAIN that the time is over.
bool connect_within(int fd, const sockaddr_un& address, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + patience;
  bool connected = false;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    set_timeout(fd, SO_SNDTIMEO, std::max(left, std::chrono::milliseconds(1)));
    connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  } while (!connected && errno == EINTR && Clock::now() < deadline);
  const int error = errno == EINTR ? EAGAIN : errno;
  set_timeout(fd, SO_SNDTIMEO, std::chrono::milliseconds(0));
  errno = error;
  return connected;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void Fd::reset() {
  if (fd_ < 0) return;
  const NoCancel guard;
  close(fd_);
  fd_ = -1;
}

Result<Connection> Connection::to(const std::string& path, std::chrono::milliseconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, "the socket's path '" + path + "' has " + std::to_string(path.size()) +
                                  " bytes; a Unix socket's path has at most " +
                                  std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const NoCancel guard;
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return socket_error("socket");
  if (!connect_within(socket.get(), address, patience)) {
    if (errno != EAGAIN) return socket_error(path.c_str());
    return fail(ETIMEDOUT, path + ": no connection within " + std::to_string(patience.count()) +
                               " ms, because too many wait for this daemon already; it is stopped or overloaded: "
                               "continue or restart it, or try again");
  }
  return Connection(std::move(socket));
}

Connection::Connection(Fd socket)
    : socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kMaxPacket)) {}

void Connection::set_timeouts(std::chrono::milliseconds receive, std::chrono::milliseconds send) {
  set_timeout(socket_.get(), SO_RCVTIMEO, receive);
  set_timeout(socket_.get(), SO_SNDTIMEO, send);
}

Result<void> Connection::send(std::span<const std::byte> bytes, std::span<const int> fds) {
  if (bytes.size() > kMaxPacket || fds.size() > kMaxFds)
    return fail(EMSGSIZE, "a message of " + std::to_string(bytes.size()) + " bytes and " + std::to_string(fds.size()) +
                              " descriptors is too large; at most " + std::to_string(kMaxPacket) + " bytes and " +
                              std::to_string(kMaxFds) + " descriptors");
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  iovec data{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const NoCancel guard;
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return socket_error("sendmsg");
  return {};
}

Result<Packet> Connection::receive() {
  auto packet = receive(0);
  if (!packet) return std::unexpected(packet.error());
  return std::move(**packet);
}

Result<std::optional<Packet>> Connection::receive_now() { return receive(MSG_DONTWAIT); }

Result<std::optional<Packet>> Connection::receive(int flags) {
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  Packet packet;
  iovec data{.iov_base = buffer_.get(), .iov_len = kMaxPacket};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const NoCancel guard;
  ssize_t got = 0;
  do {
    got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && flags != 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (got < 0) return socket_error("recvmsg");
  // Take the descriptors first, so that they close even when the rest is invalid.
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  if (got == 0) return fail(ECONNRESET, "the other end closed the connection");
  if ((message.msg_flags & MSG_TRUNC) != 0)
    return fail(EPROTO, "a message is longer than " + std::to_string(kMaxPacket) + " bytes");
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(EPROTO, "descriptors were lost: the message has more than " + std::to_string(kMaxFds) +
                            ", or this process has too many open; raise the limit (ulimit -n)");
  }
  packet.bytes.assign(buffer_.get(), buffer_.get() + got);
  return packet;
}

bool Connection::readable_within(std::chrono::milliseconds patience) const {
  using Clock = std::chrono::steady_clock;
  const NoCancel guard;
  const auto deadline = Clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

int Connection::peer_process() const {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

void Connection::shut_down() { shutdown(socket_.get(), SHUT_RDWR); }

bool Connection::peer_has_closed() const {
  pollfd socket{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, 0) > 0;
}

namespace {

// A library may not change what its program does with signals.
bool write_token_masked(int pipe) {
  sigset_t only;
  sigset_t before;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &only, &before);
  const char token = 1;
  const bool gone = write(pipe, &token, 1) < 0 && errno == EPIPE;
  if (gone && sigismember(&before, SIGPIPE) == 0) {
    const timespec at_once{};
    while (sigtimedwait(&only, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !gone;
}

}  // namespace

bool write_token(int pipe) {
  constexpr int kNoSignal = 0x100;  // RWF_NOSIGNAL of Linux 6.18; Debian 12's headers lack it
  static std::atomic<bool> refused{false};
  const NoCancel guard;
  if (!refused.load(std::memory_order_relaxed)) {
    char token = 1;
    const iovec bytes{.iov_base = &token, .iov_len = 1};
    if (pwritev2(pipe, &bytes, 1, -1, kNoSignal) == 1 || errno == EAGAIN) return true;  // a full pipe wakes as well
    if (errno == EPIPE) return false;
    refused.store(true, std::memory_order_relaxed);
  }
  return write_token_masked(pipe);
}

}  // namespace uroce::message
