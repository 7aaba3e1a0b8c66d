// A datagram rsocket: a queue pair for each local address in use, and the queue pairs of its peers. Where the kernel
// has a device's address, peers exchange introductions over the kernel's UDP, as rdma-core does. Otherwise the socket
// asks the peer's connection manager, at which each datagram rsocket also listens.
#pragma once

#include <rdma/rdma_verbs.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dropin/rsocket/buffer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// The queue pair of one local address. Not thread-safe.
class DatagramPort {
 public:
  /// Null with errno: EADDRNOTAVAIL where no device has the address.
  static std::unique_ptr<DatagramPort> make(const Gid& ip, const Sizes& sizes);
  DatagramPort() = default;
  DatagramPort(const DatagramPort&) = delete;
  DatagramPort& operator=(const DatagramPort&) = delete;
  ~DatagramPort();

  uint32_t qpn() const { return id_->qp->qp_num; }
  ibv_pd* pd() const { return id_->pd; }
  ibv_context* verbs() const { return id_->verbs; }
  int event_fd() const { return completions_->fd; }
  /// The most bytes of one datagram, including its sender.
  uint32_t room() const { return room_; }

  bool can_send() const { return !free_.empty(); }
  /// 0, or -1 with errno. The caller has checked can_send(), and that sender and bytes fit into room().
  int send(const wire::Sender& sender, IoCursor from, ibv_ah* to, uint32_t qpn);

  struct Received {
    uint32_t slot;
    std::span<const std::byte> bytes;
  };
  /// The next received datagram; post() returns its slot. Also frees the slots of completed sends.
  std::optional<Received> take();
  int post(uint32_t slot);
  void arm();
  void take_event();

 private:
  int set_up(const Gid& ip, const Sizes& sizes);

  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  Buffer out_, in_;
  uint32_t slots_ = 0;
  uint32_t room_ = 0;
  uint32_t inline_bytes_ = 0;
  std::vector<uint32_t> free_;  ///< slots to send from
  bool armed_ = false;
};

/// A peer's queue pair, and the port that reaches it.
struct Destination {
  DatagramPort* port = nullptr;
  ibv_ah* ah = nullptr;
  uint32_t qpn = 0;
};

class Datagram final : public Socket, public std::enable_shared_from_this<Datagram> {
 public:
  /// Null with errno.
  static std::shared_ptr<Datagram> make(int family);
  explicit Datagram(int family) : Socket(family) {}
  ~Datagram() override;

  int fd() const override { return udp_; }
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
  int wait_fd() override { return events_; }
  void take_event() override;

 private:
  using Peer = std::pair<std::array<uint8_t, 16>, uint16_t>;
  struct Arrival {
    wire::Sender sender;
    DatagramPort* port;  ///< null for a datagram over the kernel's UDP
    uint32_t slot;
    std::span<const std::byte> bytes;
    std::vector<std::byte> kept;  ///< the bytes of a datagram over the kernel's UDP
  };
  static Peer key(const wire::Sender& of) { return {of.ip.bytes, of.port}; }

  // Callers hold mutex_.
  void drain();
  short readiness(short events);
  DatagramPort* port_of(const Gid& ip);
  std::optional<Destination> known(const wire::Sender& to);
  void learn(const wire::Sender& peer, DatagramPort* port, ibv_ah_attr where, uint32_t qpn);
  void deliver(Arrival arrival);

  // datagram_peers.cc: without mutex_, because they wait for the network.
  int start(const sockaddr* address, socklen_t length);
  int listen_for_peers(const sockaddr* address);
  ssize_t send_unknown(const wire::Sender& to, IoCursor from);
  int find_by_cm(const wire::Sender& to);
  std::optional<Gid> kernel_source(const wire::Sender& to) const;
  ssize_t introduce(const wire::Sender& to, const Gid& own, uint32_t qpn, IoCursor from, bool asks);
  void on_udp_readable();
  void on_introduction(const wire::Introduction& of, const wire::Sender& peer, std::span<const std::byte> data);
  bool find_route(const Gid& own, const wire::Sender& peer, ibv_ah_attr& where);
  void on_cm_readable();
  void on_request(const rdma_cm_event& event);

  int udp_ = -1;     ///< the kernel's UDP socket; its descriptor is the socket's number
  int events_ = -1;  ///< an epoll descriptor over the ports' event descriptors
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;

  std::mutex start_mutex_;
  bool started_ = false;
  bool kernel_bound_ = false;
  uint16_t own_port_ = 0;
  sockaddr_storage own_{};

  std::mutex mutex_;  ///< guards the members below
  Sizes sizes_;
  std::map<std::array<uint8_t, 16>, std::unique_ptr<DatagramPort>> ports_;
  std::map<Peer, Destination> destinations_;
  std::optional<wire::Sender> connected_;
  std::deque<Arrival> arrived_;
};

}  // namespace uroce::dropin::rsocket
