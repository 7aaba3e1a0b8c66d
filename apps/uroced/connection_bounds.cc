#include "uroced/connection_bounds.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace uroce::daemon {

ConnectionBounds::ConnectionBounds(unsigned per_host, std::chrono::milliseconds life)
    : per_host_(per_host), life_(life), thread_([this] { run(); }) {}

ConnectionBounds::~ConnectionBounds() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

ConnectionBounds::Host ConnectionBounds::host_of(const sockaddr& from) {
  constexpr std::size_t kNetwork = 8;  // bytes of an IPv6 address
  Host host{};
  if (from.sa_family == AF_INET) {
    in_addr address{};
    std::memcpy(&address, reinterpret_cast<const char*>(&from) + offsetof(sockaddr_in, sin_addr), sizeof address);
    if ((ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET) address.s_addr = htonl(INADDR_LOOPBACK);
    host[0] = 4;
    std::memcpy(&host[1], &address, sizeof address);
  } else if (from.sa_family == AF_INET6) {
    host[0] = 6;
    std::memcpy(&host[1], reinterpret_cast<const char*>(&from) + offsetof(sockaddr_in6, sin6_addr), kNetwork);
  }
  return host;
}

bool ConnectionBounds::admits(const sockaddr& from) const {
  const Host host = host_of(from);
  const std::scoped_lock lock(mutex_);
  const auto have = std::ranges::count_if(connections_, [&](const auto& one) { return one.second.host == host; });
  return static_cast<std::size_t>(have) < per_host_;
}

void ConnectionBounds::began(int fd, const sockaddr& from) {
  {
    const std::scoped_lock lock(mutex_);
    connections_[fd] = {.host = host_of(from), .end = Clock::now() + life_};
  }
  changed_.notify_one();
}

void ConnectionBounds::ended(int fd) {
  const std::scoped_lock lock(mutex_);
  connections_.erase(fd);
}

ConnectionBounds::Clock::time_point ConnectionBounds::end_some(Clock::time_point now) {
  auto next = now + life_;
  for (auto& [fd, one] : connections_) {
    if (one.over) continue;
    if (one.end <= now) {
      shutdown(fd, SHUT_RDWR);
      one.over = true;
    } else {
      next = std::min(next, one.end);
    }
  }
  return next;
}

void ConnectionBounds::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = end_some(Clock::now());
    if (connections_.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

}  // namespace uroce::daemon
