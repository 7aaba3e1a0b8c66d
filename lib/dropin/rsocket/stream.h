// A streaming rsocket. It sends bytes by RDMA WRITE with immediate into the peer's receive buffer, as far as the peer
// has advertised room there, and credits for messages.
#pragma once

#include <rdma/rdma_verbs.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "dropin/rsocket/arrivals.h"
#include "dropin/rsocket/endpoint.h"
#include "dropin/rsocket/incoming.h"
#include "dropin/rsocket/keepalive.h"
#include "dropin/rsocket/mappings.h"
#include "dropin/rsocket/outgoing.h"
#include "dropin/rsocket/peer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

enum class Phase : uint8_t {
  idle,
  bound,
  listening,
  connecting,
  refused,  ///< connecting failed; SO_ERROR has the reason
  connected,
  disconnected,
  broken,
};

class Stream final : public Socket, public std::enable_shared_from_this<Stream> {
 public:
  /// Null with errno.
  static std::shared_ptr<Stream> make(int family);
  explicit Stream(int family) : Socket(family) {}
  ~Stream() override;

  int fd() const override { return number_; }
  int bind(const sockaddr* address, socklen_t length) override;
  int listen(int backlog) override;
  int accept(sockaddr* address, socklen_t* length) override;
  int connect(const sockaddr* address, socklen_t length) override;
  int shutdown(int how) override;
  void close() override;
  ssize_t receive(IoCursor to, int flags, sockaddr* from, socklen_t* length) override;
  ssize_t send(IoCursor from, int flags, const sockaddr* to, socklen_t length) override;
  int peer_name(sockaddr* address, socklen_t* length) override;
  int own_name(sockaddr* address, socklen_t* length) override;
  int set_option(int level, int name, const void* value, socklen_t length) override;
  int get_option(int level, int name, void* value, socklen_t* length) override;
  off_t map(void* buffer, std::size_t length, int protection, off_t offset) override;
  int unmap(void* buffer, std::size_t length) override;
  std::size_t write_at(IoCursor from, off_t offset, int flags) override;
  short ready(short events) override;
  short arm(short events) override;
  int wait_fd() override;
  void take_event() override;

 private:
  using Test = bool (Stream::*)() const;

  short readiness(short events);

  // connect.cc: on the watcher's thread, except the calls that begin to connect.
  bool open_channel();
  bool take_descriptor();
  bool watch();
  void on_cm_readable();
  void on_cm_event(const rdma_cm_event& event);
  void on_connecting(const rdma_cm_event& event);
  void on_failure(const rdma_cm_event& event, int (Stream::*again)());
  int ask_for_address();
  int ask_for_route();
  int ask_for_connection();
  void on_answer(const rdma_conn_param& answer);
  void fail_connecting(int reason);
  void change(Phase into);
  int wait_connected(bool at_once);
  int make_endpoint();
  wire::Greeting greeting() const;
  void take_greeting(const wire::Greeting& peer);
  void release();

  // accept.cc
  void on_request(const rdma_cm_event& event);
  int answer_request(const rdma_conn_param& request);
  void on_accepted();
  void drop_accepting(const Stream* child);

  // completion.cc: with cq_mutex_ held, except wait().
  int wait(bool at_once, Test test);
  int process(bool at_once, Test test);
  int drain();
  void on_received(const ibv_wc& done);
  void on_sent(const ibv_wc& done);
  void on_control(uint32_t what);
  int wait_event();
  void breaks(int reason);
  void part(Phase into);
  void update_credits();
  bool owes_credits() const;
  void send_credits();

  // The conditions that calls wait for.
  bool at_all() const { return true; }
  bool is_armed() const { return endpoint_.armed(); }
  bool has_data() const { return incoming_.has_data(); }
  bool has_data_or_end() const { return has_data() || !readable_; }
  bool can_send() const { return outgoing_.has_room() && peer_.has_room(); }
  bool can_send_or_end() const { return can_send() || !writable_; }
  bool can_control() const { return outgoing_.can_control(); }
  bool can_control_or_end() const { return can_control() || phase_ != Phase::connected; }
  bool all_sent_or_end() const { return outgoing_.all_sent() || phase_ != Phase::connected; }

  // transfer.cc: with send_mutex_ held.
  int await_room(int flags);
  int send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, Peer::Place place);
  int send_mappings(int flags);

  // stream_options.cc
  int set_socket_option(int name, const void* value, socklen_t length);
  int set_tcp_option(int name, const void* value, socklen_t length);
  int set_rdma_option(int name, const void* value, socklen_t length);
  int get_rdma_option(int name, void* value, socklen_t* length);
  int give_route(void* value, socklen_t* length);
  int give_tcp_info(void* value, socklen_t* length) const;
  uint8_t tcp_state() const;
  int segment() const;
  int set_switch(uint32_t which, bool on);
  int set_keepalive(bool on);
  std::function<void()> keepalive_handler();
  void send_keepalive();

  rdma_event_channel* channel_ = nullptr;
  int number_ = -1;  ///< a duplicate of the channel's descriptor
  rdma_cm_id* id_ = nullptr;
  bool watched_ = false;

  mutable std::mutex cm_mutex_;  ///< guards changes of phase_, and arrivals_
  std::condition_variable changed_;
  std::atomic<Phase> phase_{Phase::idle};
  std::atomic<bool> readable_{false};
  std::atomic<bool> writable_{false};
  std::atomic<int> error_{0};
  int tries_ = 0;

  Arrivals arrivals_;
  std::weak_ptr<Stream> listener_;  ///< of a stream that is to be accepted

  Sizes sizes_;

  // Lock order: as listed. That of mappings_ comes before cq_mutex_, and that of endpoint_ last.
  std::mutex send_mutex_;
  std::mutex receive_mutex_;
  std::mutex cq_mutex_;  ///< for completions

  Endpoint endpoint_;
  Outgoing outgoing_;
  Incoming incoming_;
  Peer peer_;
  Mappings mappings_;

  std::atomic<uint32_t> switches_{0};  ///< boolean options, one bit each
  Keepalive keepalive_;
};

}  // namespace uroce::dropin::rsocket
