// A streaming rsocket. It sends bytes by RDMA WRITE with immediate into the peer's receive buffer, as far as the peer
// has advertised room there, and credits for messages. Stream connects, listens and has the options; its Connection
// moves the bytes.
#pragma once

#include <rdma/rdma_verbs.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "dropin/rsocket/arrivals.h"
#include "dropin/rsocket/connection.h"
#include "dropin/rsocket/keepalive.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/stream_state.h"

namespace uroce::dropin::rsocket {

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
  void announce();
  int wait_connected(bool at_once);
  void release();

  // accept.cc
  void on_request(const rdma_cm_event& event);
  int answer_request(const rdma_conn_param& request);
  void on_accepted();
  void drop_accepting(const Stream* child);

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

  mutable std::mutex cm_mutex_;  ///< guards changes of state_ before it is connected, and arrivals_
  std::condition_variable changed_;
  StreamState state_{waiters};
  int tries_ = 0;

  Arrivals arrivals_;
  std::weak_ptr<Stream> listener_;  ///< of a stream that is to be accepted

  Sizes sizes_;

  Connection connection_{state_, *this};

  std::atomic<uint32_t> switches_{0};  ///< boolean options, one bit each
  Keepalive keepalive_;
};

}  // namespace uroce::dropin::rsocket
