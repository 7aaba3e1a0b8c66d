// One end of a SOCK_SEQPACKET Unix socket: packets with descriptors, bounded in size and in time.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>

namespace uroce::message {

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

/// One thread at a time, except shut_down() and peer_has_closed().
class Connection {
 public:
  explicit Connection(Fd socket);
  /// Waits `patience` at most, more than 0, while as many connections wait as the listener's backlog holds. Errors:
  /// those of connect(2); ETIMEDOUT.
  static Result<Connection> to(const std::string& path, std::chrono::milliseconds patience);

  /// Timeouts of receive() and send(); 0 is for ever.
  void set_timeouts(std::chrono::milliseconds receive, std::chrono::milliseconds send);
  /// Errors: EPIPE and ECONNRESET (the other end is gone), ETIMEDOUT.
  Result<void> send(std::span<const std::byte> bytes, std::span<const int> fds);
  /// Errors: ECONNRESET (the other end is gone), ETIMEDOUT, EPROTO (larger than kMaxPacket, or more descriptors than
  /// kMaxFds, also when this process has no descriptors left).
  Result<Packet> receive();
  /// receive() without waiting: nullopt where no packet is there.
  Result<std::optional<Packet>> receive_now();
  /// Whether receive() would return at once, by then at the latest. A signal does not end the wait.
  bool readable_within(std::chrono::milliseconds patience) const;
  /// The id of the process at the other end when it connected or listened (SO_PEERCRED, unix(7)), as this process sees
  /// it; 0 when it has none here, as in another PID namespace.
  int peer_process() const;
  /// Any thread: ends a send() or receive() in which another thread waits.
  void shut_down();
  /// Any thread.
  bool peer_has_closed() const;
  int fd() const { return socket_.get(); }

 private:
  Result<std::optional<Packet>> receive(int flags);

  Fd socket_;
  std::unique_ptr<std::byte[]> buffer_;  // receive() fills it: kMaxPacket bytes
};

/// Writes one byte to a pipe that does not block; a full pipe is as good. False when nobody can read it any more, and
/// then without SIGPIPE. Any thread.
bool write_token(int pipe);

}  // namespace uroce::message
