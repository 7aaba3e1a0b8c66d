// The out-of-band channel between the two sides: TCP through the kernel, or a queue inside the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "perf/exchange.h"

namespace uroce::perf {

/// Carries messages in order. One thread.
class PeerChannel {
 public:
  virtual ~PeerChannel() = default;
  /// Queues the message; never blocks. Errors: ECONNRESET (the peer is gone).
  virtual Result<void> send(const Message& message) = 0;
  /// The next message, if one has arrived; never blocks. Errors: ECONNRESET (the peer is gone), EPROTO (garbled).
  virtual Result<std::optional<Message>> receive() = 0;
  /// Tries for a moment (0.2 s, 1 s with much queued) to send the last messages. No other call may follow.
  virtual void flush() {}
};

/// Two ends that are connected inside this process.
std::pair<std::unique_ptr<PeerChannel>, std::unique_ptr<PeerChannel>> local_channels();

/// Called again and again while waiting. It does other work, or sleeps for about a millisecond. False ends the wait.
using WaitStep = std::function<bool()>;

/// A server's listening socket, on all addresses, IPv4 and IPv6.
class Listener {
 public:
  /// Errors: those of bind(2), such as EADDRINUSE.
  static Result<Listener> open(uint16_t port);
  Listener(Listener&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Listener& operator=(Listener&&) = delete;
  ~Listener();
  /// Waits for one client, at most `timeout_s` (0 for ever). Errors: ETIMEDOUT, EINTR (`step` gave up).
  Result<std::unique_ptr<PeerChannel>> accept(double timeout_s, const WaitStep& step);
  uint16_t port() const;

 private:
  explicit Listener(int fd) : fd_(fd) {}
  int fd_;
};

/// Connects to a server. Tries again until `timeout_s` (0 for ever) has passed, because the server may still start.
/// Errors: EINVAL (unknown host), ETIMEDOUT (nobody answers, with the last reason), EINTR (`step` gave up).
Result<std::unique_ptr<PeerChannel>> connect_channel(const std::string& host, uint16_t port, double timeout_s,
                                                     const WaitStep& step);

}  // namespace uroce::perf
