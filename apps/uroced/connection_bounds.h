// Bounds for the connections of a server that strangers may reach: how many a host has, and how long each lasts.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <sys/socket.h>

namespace uroce::daemon {

/// Any thread. A thread of its own ends connections whose time is over.
class ConnectionBounds {
 public:
  ConnectionBounds(unsigned per_host, std::chrono::milliseconds life);
  ~ConnectionBounds();
  ConnectionBounds(const ConnectionBounds&) = delete;
  ConnectionBounds& operator=(const ConnectionBounds&) = delete;

  /// Whether the host may have one more. All of 127.0.0.0/8 is one host, and so is an IPv6 network of 64 bits.
  bool admits(const sockaddr& from) const;
  /// After its life the connection `fd` is shut down (shutdown(2)).
  void began(int fd, const sockaddr& from);
  /// Before `fd` is closed.
  void ended(int fd);

 private:
  using Clock = std::chrono::steady_clock;
  using Host = std::array<unsigned char, 9>;  // the family's kind, and what tells hosts apart
  struct Connection {
    Host host;
    Clock::time_point end;
    bool over = false;
  };
  static Host host_of(const sockaddr& from);
  void run();
  /// Shuts down those whose time is over. Until when to wait for the next. The caller holds the mutex.
  Clock::time_point end_some(Clock::time_point now);

  const unsigned per_host_;
  const std::chrono::milliseconds life_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<int, Connection> connections_;
  std::thread thread_;
};

}  // namespace uroce::daemon
