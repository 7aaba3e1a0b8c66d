// A streaming rsocket. It sends bytes by RDMA WRITE with immediate into the peer's receive buffer, as far as the peer
// has advertised room there, and credits for messages.
#pragma once

#include <rdma/rdma_verbs.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dropin/rsocket/buffer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// Memory that the application lets the peer write to (riomap()), and whether the peer knows of it.
struct Mapped {
  off_t offset = 0;
  ibv_mr* mr = nullptr;
  int index = -1;  ///< in the peer's table; -1 when it was not sent
  bool advertised = true;
};

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

  /// Control messages that may be in flight at once; so many send requests are reserved for them.
  static constexpr uint32_t kControls = 4;

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

  // accept.cc
  void on_request(const rdma_cm_event& event);
  int answer_request(const rdma_conn_param& request);
  void on_accepted();
  void drop_accepting(const Stream* child);

  // endpoint.cc
  int make_endpoint();
  int make_buffers();
  wire::Greeting greeting() const;
  void take_greeting(const wire::Greeting& peer);
  int post_receive();
  void release();

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
  int post(std::span<ibv_sge> pieces, ibv_wr_opcode opcode, uint32_t message, bool as_inline, uint64_t address,
           uint32_t rkey);

  // The conditions that calls wait for.
  bool never() const { return false; }
  bool at_all() const { return true; }
  bool is_armed() const { return armed_; }
  bool has_data() const { return data_head_ != data_tail_; }
  bool has_data_or_end() const { return has_data() || !readable_; }
  bool can_send() const;
  bool can_send_or_end() const { return can_send() || !writable_; }
  bool can_control() const { return control_sent_ != control_limit_; }
  bool can_control_or_end() const { return can_control() || phase_ != Phase::connected; }
  bool all_sent_or_end() const;

  // transfer.cc: with send_mutex_ held.
  int await_room(int flags);
  int send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, uint64_t address, uint32_t rkey);
  int send_mappings(int flags);
  wire::Target next_target() const;
  void consume_target(uint32_t bytes);
  std::size_t peek(IoCursor to) const;
  void take_data(IoCursor& to);

  // map.cc
  std::optional<wire::Mapping> find_mapping(uint64_t offset) const;

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
  void send_keepalive();

  volatile wire::Target* targets() const { return reinterpret_cast<volatile wire::Target*>(tables_.data()); }

  rdma_event_channel* channel_ = nullptr;
  int number_ = -1;  ///< a duplicate of the channel's descriptor
  rdma_cm_id* id_ = nullptr;
  bool watched_ = false;

  mutable std::mutex cm_mutex_;  ///< guards changes of phase_, and accepted_
  std::condition_variable changed_;
  std::atomic<Phase> phase_{Phase::idle};
  std::atomic<bool> readable_{false};
  std::atomic<bool> writable_{false};
  std::atomic<int> error_{0};
  int tries_ = 0;

  // A listener has these.
  std::deque<std::shared_ptr<Stream>> accepted_;
  std::list<std::shared_ptr<Stream>> accepting_;
  std::weak_ptr<Stream> listener_;
  int accept_fd_ = -1;  ///< an eventfd that counts accepted_

  Sizes sizes_;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;

  // Lock order: as listed.
  std::mutex send_mutex_;
  std::mutex receive_mutex_;
  std::mutex map_mutex_;
  std::mutex cq_mutex_;
  std::mutex wait_mutex_;
  std::atomic<bool> armed_{false};
  unsigned unacknowledged_ = 0;  ///< events, guarded by wait_mutex_

  // Sending.
  Buffer out_;
  uint32_t out_at_ = 0;                ///< offset of the next bytes
  std::atomic<uint32_t> out_free_{0};  ///< bytes
  std::atomic<uint32_t> requests_free_{0};
  std::atomic<uint16_t> sent_{0};        ///< messages
  std::atomic<uint16_t> send_limit_{0};  ///< messages that the peer's credits allow
  std::atomic<uint32_t> control_sent_{0};
  std::atomic<uint32_t> control_limit_{0};
  Buffer tables_;  ///< written by the peer: the table of targets, then the table of mappings
  uint32_t target_ = 0;
  wire::Target remote_targets_;  ///< the peer's table of our receive buffers
  uint32_t remote_target_ = 0;
  uint64_t remote_mappings_ = 0;  ///< address of the peer's table of our mappings
  uint32_t remote_mapping_count_ = 0;
  bool swaps_ = false;  ///< the peer has the other byte order

  // Receiving.
  Buffer in_;
  std::vector<uint32_t> data_;  ///< a ring: the unread bytes of each message
  std::atomic<uint32_t> data_head_{0}, data_tail_{0};
  std::atomic<uint32_t> unread_{0};    ///< the sum of data_
  std::atomic<uint32_t> in_freed_{0};  ///< bytes read since a buffer was last advertised
  uint32_t in_given_ = 0;              ///< offset of the half to advertise next
  uint32_t in_at_ = 0;                 ///< offset of the next bytes to read
  std::atomic<uint16_t> received_{0};  ///< messages read
  std::atomic<uint16_t> grant_at_{0};  ///< when received_ reaches this, credits are due

  std::list<Mapped> mapped_;
  std::vector<bool> mapping_used_;
  std::atomic<bool> unsent_mappings_{false};

  std::atomic<uint32_t> switches_{0};  ///< boolean options, one bit each
  int keepalive_seconds_ = 0;
  int keepalive_fd_ = -1;
};

}  // namespace uroce::dropin::rsocket
