// The connection of a stream: moves bytes, credits and control messages over its queue pair.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "dropin/rsocket/endpoint.h"
#include "dropin/rsocket/incoming.h"
#include "dropin/rsocket/mappings.h"
#include "dropin/rsocket/outgoing.h"
#include "dropin/rsocket/peer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/stream_state.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// Any thread. Values and errors are those of the calls of <rdma/rsocket.h>, if nothing else is said.
class Connection {
 public:
  /// It ends the connection in `state`, and reads the flags of `socket`.
  Connection(StreamState& state, Socket& socket) : state_(state), socket_(socket) {}

  /// Makes its objects on the id's device, and sets the real sizes.
  int make(rdma_cm_id* id, Sizes& sizes);
  void release();
  wire::Greeting greeting() const;
  void take_greeting(const wire::Greeting& peer);
  /// SO_SNDBUF and SO_RCVBUF have an effect before that.
  bool has_send_buffer() const { return outgoing_.made(); }
  bool has_receive_buffer() const { return incoming_.made(); }

  std::size_t send(IoCursor& from, int flags);
  std::size_t write_at(IoCursor& from, off_t offset, int flags);
  // These are for Phase::connected or later.
  ssize_t receive(IoCursor& to, int flags);
  int shutdown(int how);
  short readiness(short events) const;

  off_t map(ibv_pd* pd, void* buffer, std::size_t length, int protection, off_t offset) {
    return mappings_.map(pd, buffer, length, protection, offset);
  }
  int unmap(void* buffer, std::size_t length) { return mappings_.unmap(buffer, length); }

  void send_keepalive();
  /// The peer has gone, or this connection's own device.
  void on_disconnected();
  /// Handles completions without waiting.
  void process() { process(true, &Connection::at_all); }
  /// The next completion makes wait_fd() readable.
  void arm() { process(false, &Connection::is_armed); }
  int wait_fd() const { return endpoint_.fd(); }
  int wait_event();

 private:
  using Test = bool (Connection::*)() const;

  // completion.cc: with cq_mutex_ held, except wait().
  int wait(bool at_once, Test test);
  int process(bool at_once, Test test);
  int drain();
  void on_received(const ibv_wc& done);
  void on_sent(const ibv_wc& done);
  void on_control(uint32_t what);
  void update_credits();
  bool owes_credits() const;
  void send_credits();

  // The conditions that calls wait for.
  bool at_all() const { return true; }
  bool is_armed() const { return endpoint_.armed(); }
  bool has_data() const { return incoming_.has_data(); }
  bool has_data_or_end() const { return has_data() || !state_.readable(); }
  bool can_send() const { return outgoing_.has_room() && peer_.has_room(); }
  bool can_send_or_end() const { return can_send() || !state_.writable(); }
  bool can_control() const { return outgoing_.can_control(); }
  bool can_control_or_end() const { return can_control() || !state_.connected(); }
  bool all_sent_or_end() const { return outgoing_.all_sent() || !state_.connected(); }

  // transfer.cc: with send_mutex_ held.
  int await_room(int flags);
  int send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, Peer::Place place);
  int send_mappings(int flags);

  StreamState& state_;
  Socket& socket_;
  uint32_t inline_bytes_ = 0;

  // Lock order: as listed. That of mappings_ comes before cq_mutex_, and that of endpoint_ last.
  std::mutex send_mutex_;
  std::mutex receive_mutex_;
  std::mutex cq_mutex_;  ///< for completions

  Endpoint endpoint_;
  Outgoing outgoing_;
  Incoming incoming_;
  Peer peer_;
  Mappings mappings_;
};

}  // namespace uroce::dropin::rsocket
