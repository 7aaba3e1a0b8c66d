// A program's connection to the daemon: one request at a time, in order, for its devices and its connection manager.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <uroce/daemon_options.h>
#include <uroce/error.h>
#include <uroce/verbs/device.h>

#include "client/liveness.h"
#include "client/queue_chunks.h"
#include "message/connection.h"
#include "message/protocol.h"

namespace uroce::client {

/// The path of the socket that the options name.
std::string socket_path(const DaemonOptions& options);

/// A call that has waited for the daemon for kSlow.
struct SlowCall {
  std::string socket;          ///< the daemon's
  int process = 0;             ///< the daemon's id as this process sees it (SO_PEERCRED, unix(7)); 0: not known
  std::chrono::seconds limit;  ///< from now on; then it fails with ETIMEDOUT
};
constexpr std::chrono::seconds kSlow{2};
/// For programs that tell their user what they wait for; the library tells nobody. `told` runs on the thread that
/// waits, once for each slow call, and makes no call of the daemon. Null, as at first: no call is watched. Any thread.
void watch_slow_calls(void (*told)(const SlowCall&));

/// A device's number on the connection, and the queue memory that came with its replies.
struct DeviceSlot {
  uint32_t number = 0;
  QueueChunks chunks{};
};

/// Any thread.
class DaemonLink : public Liveness {
 public:
  /// A connection of its own: connects and greets. Errors: those of daemon_devices().
  static Result<std::unique_ptr<DaemonLink>> open(const DaemonOptions& options);
  /// The program's connection to that daemon, which all its devices and connection managers share. It lasts as long as
  /// one of them. A child of fork(), and a program whose daemon has ended, get a new one. Errors: as open().
  static Result<std::shared_ptr<DaemonLink>> of_program(const DaemonOptions& options);
  DaemonLink(const DaemonLink&) = delete;
  DaemonLink& operator=(const DaemonLink&) = delete;

  const std::vector<DeviceInfo>& devices() const { return devices_; }
  const std::string& daemon_version() const { return daemon_version_; }
  /// Connection::peer_process() of the daemon.
  int daemon_process() const { return connection_.peer_process(); }

  /// Sends `request` with `fds`, waits for the reply, and decodes it. `received` gets the reply's descriptors. `device`
  /// is the one that the call is for, if any. Errors: the daemon's (EOPNOTSUPP: it is too old for the operation), EIO
  /// (it is gone), ETIMEDOUT, EPROTO.
  template <class Reply, class Request>
  Result<Reply> call(message::Op op, const Request& request, std::span<const int> fds = {},
                     std::vector<message::Fd>* received = nullptr, DeviceSlot* device = nullptr) {
    std::vector<std::byte> bytes;
    const std::scoped_lock lock(mutex_);
    message::encode(bytes, message::RequestHeader{op, next_sequence(), device != nullptr ? device->number : 0});
    message::encode(bytes, request, protocol_);
    auto body = exchange(bytes, fds, received, device);
    if (!body) return std::unexpected(body.error());
    Reply reply;
    if (!message::decode(*body, reply, protocol_)) return broken(EPROTO, "its reply is not what the request asks for");
    return reply;
  }

  /// Sends a request that has no reply, for calls that cannot fail by the program's fault, or whose failure is an
  /// event. The daemon handles it before every later request. Waits now and then until the daemon has handled those
  /// before. Errors: EIO.
  template <class Request>
  Result<void> post(message::Op op, const Request& request, const DeviceSlot* device = nullptr) {
    std::vector<std::byte> bytes;
    message::encode(bytes, message::RequestHeader{op, message::kNoReply, device != nullptr ? device->number : 0});
    message::encode(bytes, request, protocol_);
    return submit(bytes);
  }

  /// A number for a device that is to be opened. nullopt: kMaxDevices are open.
  std::optional<uint32_t> take_number();
  void give_back_number(uint32_t number);
  /// The address of an object's queues in this process. Errors: EPROTO.
  Result<std::byte*> memory(const DeviceSlot& device, const message::Place& place);
  /// False in a child of fork(): the connection belongs to the parent.
  bool mine() const { return getpid() == owner_; }

 private:
  DaemonLink(message::Connection connection, std::string socket, uint32_t protocol)
      : Liveness(connection.fd()),
        connection_(std::move(connection)),
        socket_(std::move(socket)),
        owner_(getpid()),
        protocol_(protocol) {}

  /// Connects, and greets as a side whose newest protocol is `protocol`.
  static Result<std::unique_ptr<DaemonLink>> greet(const std::string& path, uint32_t protocol);
  /// For programs that are not root of the machine: shows the daemon that they have CAP_NET_RAW, if so.
  void prove_raw_packets();
  Result<std::span<const std::byte>> exchange(std::span<const std::byte> bytes, std::span<const int> fds,
                                              std::vector<message::Fd>* received, DeviceSlot* device);
  Result<void> submit(std::span<const std::byte> bytes);
  std::unexpected<Error> broken(int code, const std::string& why);

  uint32_t next_sequence() {
    if (++sequence_ == message::kNoReply) ++sequence_;
    return sequence_;
  }
  Result<void> usable() const;
  /// Returns once the reply is there, or the call is slow and watch_slow_calls()'s function has been told.
  void watch_reply() const;

  std::mutex mutex_;
  message::Connection connection_;
  const std::string socket_;  // its path
  const pid_t owner_;
  uint32_t protocol_;  // constant after the greeting
  uint32_t sequence_ = 0;
  uint64_t posted_ = 0;  // requests without a reply since the last reply
  bool broken_ = false;
  message::Packet packet_;     // the last reply
  std::vector<bool> numbers_;  // of devices: which are taken
  std::vector<DeviceInfo> devices_;
  std::string daemon_version_;
};

}  // namespace uroce::client
