#include "perf/peer_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::perf {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::string reason(int code) { return std::generic_category().message(code); }

class LocalChannel final : public PeerChannel {
 public:
  using Queue = std::deque<Message>;
  LocalChannel(std::shared_ptr<Queue> out, std::shared_ptr<Queue> in) : out_(std::move(out)), in_(std::move(in)) {}

  Result<void> send(const Message& message) override {
    out_->push_back(message);
    return {};
  }
  Result<std::optional<Message>> receive() override {
    if (in_->empty()) return std::nullopt;
    std::optional<Message> message(std::move(in_->front()));
    in_->pop_front();
    return message;
  }

 private:
  std::shared_ptr<Queue> out_, in_;
};

class TcpChannel final : public PeerChannel {
 public:
  explicit TcpChannel(int fd) : fd_(fd) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  }
  ~TcpChannel() override { ::close(fd_); }

  Result<void> send(const Message& message) override {
    out_ += encode(message);
    return push();
  }

  Result<std::optional<Message>> receive() override {
    if (auto pushed = push(); !pushed) return std::unexpected(pushed.error());
    for (;;) {
      auto decoded = decode(in_);
      if (!decoded) return std::unexpected(decoded.error());
      if (decoded->message) {
        in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(decoded->used));
        return std::move(decoded->message);
      }
      std::array<char, 65536> chunk;
      const ssize_t n = ::recv(fd_, chunk.data(), chunk.size(), 0);
      if (n == 0) return gone("it closed the connection");
      if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) return std::nullopt;
        return gone(reason(errno));
      }
      in_.insert(in_.end(), chunk.begin(), chunk.begin() + n);
    }
  }

  void flush() override {
    for (int tries = 0; tries < 100 && !out_.empty() && push(); ++tries) {
      pollfd p{fd_, POLLOUT, 0};
      ::poll(&p, 1, 10);
    }
    // Closing with unread bytes would reset the connection, and our last message would be lost.
    ::shutdown(fd_, SHUT_WR);
    for (int tries = 0; tries < 20; ++tries) {
      pollfd p{fd_, POLLIN, 0};
      ::poll(&p, 1, 10);
      std::array<char, 4096> rest;
      const ssize_t n = ::recv(fd_, rest.data(), rest.size(), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
    }
  }

 private:
  static std::unexpected<Error> gone(const std::string& why) {
    return fail(ECONNRESET, fmt::format("the peer is gone ({}); see its own output for the reason", why));
  }

  Result<void> push() {
    while (!out_.empty()) {
      const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
      if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) return {};
        return gone(reason(errno));
      }
      out_.erase(0, static_cast<std::size_t>(n));
    }
    return {};
  }

  int fd_;
  std::string out_;
  std::vector<char> in_;
};

/// A deadline; 0 seconds means never.
SteadyClock::time_point deadline_after(double timeout_s) {
  if (timeout_s <= 0) return SteadyClock::time_point::max();
  return SteadyClock::now() +
         std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(timeout_s));
}

/// 0 when connected, else an errno value; EINPROGRESS while connecting.
int connect_state(int fd) {
  pollfd p{fd, POLLOUT, 0};
  if (::poll(&p, 1, 0) == 0) return EINPROGRESS;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

/// One attempt at one address. 0 and a descriptor, or an errno value; EINTR when `step` gave up.
int try_address(const addrinfo& address, SteadyClock::time_point deadline, const WaitStep& step, int& fd) {
  fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int state = ::connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  while (state == EINPROGRESS) {
    if (!step())
      state = EINTR;
    else if (SteadyClock::now() >= deadline)
      state = ETIMEDOUT;
    else
      state = connect_state(fd);
  }
  if (state != 0) ::close(fd);
  return state;
}

}  // namespace

std::pair<std::unique_ptr<PeerChannel>, std::unique_ptr<PeerChannel>> local_channels() {
  auto a = std::make_shared<LocalChannel::Queue>();
  auto b = std::make_shared<LocalChannel::Queue>();
  return {std::make_unique<LocalChannel>(a, b), std::make_unique<LocalChannel>(b, a)};
}

Result<Listener> Listener::open(uint16_t port) {
  int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool v6 = fd >= 0;
  if (!v6) fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return fail(errno, fmt::format("cannot create a TCP socket for the parameter exchange: {}", reason(errno)));
  Listener listener(fd);
  const int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int bound;
  if (v6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  } else {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  if (bound != 0 || ::listen(fd, 1) != 0) {
    return fail(errno, fmt::format("cannot listen on TCP port {}: {}; choose another with -p", port, reason(errno)));
  }
  return listener;
}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

uint16_t Listener::port() const {
  sockaddr_in6 own{};
  socklen_t length = sizeof own;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length);
  return ntohs(own.sin6_port);  // at the same offset as sin_port
}

Result<std::unique_ptr<PeerChannel>> Listener::accept(double timeout_s, const WaitStep& step) {
  const auto deadline = deadline_after(timeout_s);
  for (;;) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) return std::make_unique<TcpChannel>(fd);
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      return fail(errno, fmt::format("cannot accept a client: {}", reason(errno)));
    }
    if (!step()) return fail(EINTR, "interrupted");
    if (SteadyClock::now() >= deadline) {
      return fail(ETIMEDOUT,
                  fmt::format("no client connected to TCP port {} within {} s; start it with this host's name, "
                              "or wait longer with --connect-timeout",
                              port(), timeout_s));
    }
  }
}

Result<std::unique_ptr<PeerChannel>> connect_channel(const std::string& host, uint16_t port, double timeout_s,
                                                     const WaitStep& step) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int bad = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list); bad != 0) {
    return fail(EINVAL, fmt::format("unknown host \"{}\": {}", host, ::gai_strerror(bad)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(list, &::freeaddrinfo);
  const auto deadline = deadline_after(timeout_s);
  int last = ETIMEDOUT;
  do {
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      int fd = -1;
      const int state = try_address(*a, deadline, step, fd);
      if (state == 0) return std::make_unique<TcpChannel>(fd);
      last = state;
      if (state == EINTR) return fail(EINTR, "interrupted");
    }
    // Refused at once: the server may still be starting, so try again a little later.
    for (int i = 0; i < 50; ++i) {
      if (!step()) return fail(EINTR, "interrupted");
    }
  } while (SteadyClock::now() < deadline);
  return fail(ETIMEDOUT, fmt::format("no answer from {} TCP port {} within {} s ({}); start the server there first, or "
                                     "name its port with -p",
                                     host, port, timeout_s, reason(last)));
}

}  // namespace uroce::perf
