// The connection between a daemon and its successor, once Op::take_over is answered.
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/connection.h"
#include "message/succession_messages.h"

namespace uroce::message {

/// The longest wait for a step; that for `ready` covers the start of EAL and the ports.
inline constexpr std::chrono::seconds kStepPatience{10};
inline constexpr std::chrono::seconds kReadyPatience{30};

/// One thread.
class SuccessionLink {
 public:
  /// `connection` outlives this.
  explicit SuccessionLink(Connection& connection) : connection_(&connection) {}

  struct Packet {
    Step step{};
    std::vector<std::byte> body{};
    std::vector<Fd> fds{};
  };

  /// Errors: those of Connection::send().
  Result<void> send(Step step, std::span<const std::byte> body = {}, std::span<const int> fds = {});
  /// Tells the other end why this one gives up, if it still listens.
  void fail(const Error& why);
  /// The next packet, which must be one of `expected`. Errors: the other end's own, if it sent Step::failed;
  /// ETIMEDOUT, ECONNRESET; EPROTO (another packet).
  Result<Packet> receive(std::initializer_list<Step> expected, std::chrono::milliseconds patience);

  Result<void> send_belongings(const Belongings& belongings);
  /// Errors: those of receive().
  Result<Belongings> receive_belongings();

 private:
  Connection* connection_;
};

}  // namespace uroce::message
