// One program's connection, with the thread that serves it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <poll.h>

#include "message/connection.h"
#include "service/client_state.h"
#include "service/estate.h"
#include "service/newer_than.h"
#include "service/operation.h"

namespace uroce::service {

class Client {
 public:
  Client(ServerView& server, message::Connection connection, uint32_t id, Peer peer, std::shared_ptr<User> user);
  /// Ends the connection and frees everything.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Charges the connection to its user. Errors: as User::charge().
  Result<void> admit();
  /// Replies to the first message with `refusal` and ends.
  void refuse(Error refusal) { refusal_ = std::move(refusal); }
  bool refused() const { return refusal_.has_value(); }
  /// See service::bequeath(). The program's thread waits at the gate. Errors: likewise; EOPNOTSUPP too where it was not
  /// greeted.
  Result<void> bequeath(EstateWriter& estate) const;
  /// See service::newer_than(). The program's thread waits at the gate.
  std::optional<std::string_view> newer_than(uint32_t version) const {
    return service::newer_than(version, program_, devices());
  }
  /// Makes the objects that it had with another daemon, in place of admit() and a hello. Errors: as service::inherit().
  Result<void> inherit(const ProgramRow& row, EstateReader& estate);
  /// All threads but the calling one have died. Its own may have been in a request: then bequeath() fails.
  void outlive_threads();
  /// Queue pairs that inherit() has made.
  std::size_t queue_pairs() const;
  /// The largest number by which the operator knows one of its devices.
  uint32_t last_id() const;
  /// After inherit(), in place of start(): frees what it has. Its connection stays, for the other daemon.
  void abandon();

  /// Errors: EAGAIN (the thread cannot be started).
  Result<void> start();
  /// Disconnects and waits for the thread. A client's thread must not call this, because it could wait for itself.
  void end();
  /// Any thread: disconnects the client.
  void disconnect() {
    disconnected_.store(true, std::memory_order_relaxed);
    connection_.shut_down();
  }
  uint32_t id() const { return program_.id; }
  /// Whether it is a daemon that takes over, and waits for that.
  bool is_successor() const { return program_.turn != nullptr; }
  /// Whether it has called the connection manager.
  bool uses_connections() const { return program_.connections != nullptr; }
  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Any thread: the program has closed the connection, and its objects are not all released yet.
  bool departing() const { return !done() && connection_.peer_has_closed(); }
  /// Its devices. Any thread.
  std::vector<ClientState*> devices() const;
  /// The version that it and the daemon speak. Any thread.
  uint32_t protocol() const { return program_.protocol; }
  /// Of the user who pays.
  uint32_t uid() const { return program_.user->uid(); }
  const Peer& peer() const { return program_.peer; }
  bool privileged() const { return program_.user->privileged(); }
  /// Whether the operator knows the program, or one of its devices, by this number.
  bool has(uint32_t id) const;
  /// The opened devices, or of a program without one the first, which stands for the program. Any thread.
  std::vector<const ClientState*> listed() const;
  /// See retire_broken_regions(). Disconnects the client when its queues are broken.
  void retire_broken();
  /// Charges to its user what engines have waited for its memory. Any thread.
  WaitAccount::Verdict settle_waits();
  /// Takes from the client all memory that engines may have to wait for, and disconnects it. False when it has none.
  bool cut_off();

 private:
  void run();
  /// False when the connection is to end; `why` says it.
  bool serve(std::string& why);
  /// A request is on its way from before its packet is read until after the reply. The compiler keeps that order, too:
  /// the thread may die at any instruction.
  void rest(bool at_rest) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    at_rest_.store(at_rest, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  /// The next packet; nullopt where something else was to be done.
  Result<std::optional<message::Packet>> next_packet();
  bool serve(const message::Packet& packet, std::string& why);
  /// The rest of the conversation with a successor.
  void be_replaced();
  /// The device that a request is for. Errors: EINVAL (there is none).
  Result<ClientState*> device_of(const message::RequestHeader& header);
  Result<void> send(ClientState* device, uint32_t sequence, const Result<Reply>& answer);
  void release();
  /// Returns the objects that the program left.
  History::Objects log_end() const;
  /// Notes an event for `uroce explain`. `device`, `qpn`: those concerned, if any.
  void note(History::Kind kind, std::string_view text, const ClientState* device = nullptr, uint32_t qpn = 0) const;

  Program program_;
  message::Connection connection_;
  std::thread thread_;
  std::atomic<bool> done_{false};
  std::atomic<bool> at_rest_{true};        // between two requests
  std::atomic<bool> disconnected_{false};  // by this daemon
  bool left_ = false;                      // another daemon serves the program
  mutable std::mutex devices_mutex_;       // the program's thread adds devices, which stay; others look
  std::vector<std::unique_ptr<ClientState>> devices_;
  std::vector<pollfd> waiting_;  // the gate, the socket, then the events of each device
  std::optional<Error> refusal_;
  uint32_t in_a_row_ = 0;  // requests without a reply since it last waited
};

}  // namespace uroce::service
