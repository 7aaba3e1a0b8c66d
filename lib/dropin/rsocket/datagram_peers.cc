// How datagram rsockets learn each other's queue pairs.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dropin/common/foreign_enum.h"
#include "dropin/common/report.h"
#include "dropin/rdmacm/address.h"
#include "dropin/rsocket/datagram.h"
#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

namespace {

constexpr int kTimeMs = 2000;
/// The private data of a request to the connection manager: an introduction, and the UDP port.
constexpr std::size_t kRequestMax = wire::kIntroductionMax + 2;

/// A synchronous id for one query.
class Question {
 public:
  Question() {
    if (rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_UDP) != 0) id_ = nullptr;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() {
    const int reason = errno;
    if (id_ != nullptr) rdma_destroy_id(id_);
    errno = reason;
  }

  /// Resolves the route, from any local address when `own` is zero. False with errno.
  bool resolve(const Gid& own, const wire::Sender& peer) {
    sockaddr_storage from{}, to{};
    rdmacm::to_sockaddr({own, 0}, AF_UNSPEC, RDMA_PS_UDP, from);
    rdmacm::to_sockaddr({peer.ip, peer.port}, AF_UNSPEC, RDMA_PS_UDP, to);
    sockaddr* source = own == Gid{} ? nullptr : reinterpret_cast<sockaddr*>(&from);
    return id_ != nullptr && rdma_resolve_addr(id_, source, reinterpret_cast<sockaddr*>(&to), kTimeMs) == 0 &&
           rdma_resolve_route(id_, kTimeMs) == 0;
  }
  Gid own() const { return rdmacm::to_address(&id_->route.addr.src_addr)->ip; }
  rdma_cm_id& id() const { return *id_; }

 private:
  rdma_cm_id* id_ = nullptr;
};

uint8_t index_of(const rdma_cm_id& id, const ibv_gid& gid) {
  ibv_port_attr port{};
  if (ibv_query_port(id.verbs, id.port_num, &port) != 0) return 0;
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    ibv_gid each{};
    if (ibv_query_gid(id.verbs, id.port_num, i, &each) != 0) break;
    if (std::memcmp(each.raw, gid.raw, sizeof(gid.raw)) == 0) return static_cast<uint8_t>(i);
  }
  return 0;
}

}  // namespace

/// Binds the socket; to any free port when no address is given.
int Datagram::start(const sockaddr* address, socklen_t length) {
  const std::lock_guard lock(start_mutex_);
  if (started_) return address == nullptr ? 0 : minus_one(EINVAL);
  sockaddr_storage wanted{};
  wanted.ss_family = static_cast<sa_family_t>(family());
  if (address != nullptr) {
    if (length < rdmacm::address_length(address) || rdmacm::address_length(address) == 0) return minus_one(EINVAL);
    std::memcpy(&wanted, address, rdmacm::address_length(address));
  }
  auto* plain = reinterpret_cast<sockaddr*>(&wanted);
  // The kernel lacks the addresses of ports that only DPDK drives.
  kernel_bound_ = ::bind(udp_, plain, rdmacm::address_length(plain)) == 0;
  if (!kernel_bound_ && errno != EADDRNOTAVAIL) return -1;
  if (kernel_bound_) {
    socklen_t size = sizeof(wanted);
    getsockname(udp_, plain, &size);
  }
  own_ = wanted;
  if (listen_for_peers(plain) != 0 && !kernel_bound_) return -1;
  own_port_ = ntohs(rdmacm::port_of(reinterpret_cast<const sockaddr*>(&own_)));
  fcntl(udp_, F_SETFL, O_NONBLOCK);
  const bool watched = Watcher::addresses().add(udp_, [weak = weak_from_this()] {
    if (const auto socket = weak.lock()) socket->on_udp_readable();
  });
  started_ = watched;
  return watched ? 0 : -1;
}

int Datagram::listen_for_peers(const sockaddr* address) {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr || fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) return -1;
  if (rdma_create_id(channel_, &listener_, this, RDMA_PS_UDP) != 0) return -1;
  if (rdma_bind_addr(listener_, const_cast<sockaddr*>(address)) != 0 || rdma_listen(listener_, 0) != 0) return -1;
  if (!kernel_bound_) own_ = listener_->route.addr.src_storage;
  const bool watched = Watcher::addresses().add(channel_->fd, [weak = weak_from_this()] {
    if (const auto socket = weak.lock()) socket->on_cm_readable();
  });
  return watched ? 0 : -1;
}

/// The kernel's source address for that destination, if it has one that the socket may use.
std::optional<Gid> Datagram::kernel_source(const wire::Sender& to) const {
  if (!kernel_bound_) return std::nullopt;
  sockaddr_storage there{}, own{};
  rdmacm::to_sockaddr({to.ip, to.port}, AF_UNSPEC, RDMA_PS_UDP, there);
  const int probe = ::socket(there.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return std::nullopt;
  auto* plain = reinterpret_cast<sockaddr*>(&there);
  socklen_t length = sizeof(own);
  const bool found = ::connect(probe, plain, rdmacm::address_length(plain)) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  ::close(probe);
  if (!found) return std::nullopt;
  return rdmacm::to_address(reinterpret_cast<const sockaddr*>(&own))->ip;
}

ssize_t Datagram::send_unknown(const wire::Sender& to, IoCursor from) {
  if (const auto own = kernel_source(to)) {
    uint32_t qpn = 0;
    {
      const std::lock_guard lock(mutex_);
      const DatagramPort* port = port_of(*own);
      if (port != nullptr) qpn = port->qpn();
    }
    if (qpn != 0) return introduce(to, *own, qpn, from, true);
  }
  if (find_by_cm(to) != 0) return -1;
  const std::lock_guard lock(mutex_);
  const auto destination = known(to);
  if (!destination) return minus_one(ENOMEM);
  const auto size = static_cast<ssize_t>(from.left());
  DatagramPort& port = *destination->port;
  if (!port.can_send()) return size;  // dropped, as by a full queue of the kernel
  const auto own = std::ranges::find(ports_, &port, [](const auto& each) { return each.second.get(); });
  return port.send({Gid{own->first}, own_port_}, from, destination->ah, destination->qpn) == 0 ? size : -1;
}

/// Sends an introduction: with a first datagram's bytes and a request for a reply, or as a reply without bytes.
ssize_t Datagram::introduce(const wire::Sender& to, const Gid& own, uint32_t qpn, IoCursor from, bool asks) {
  std::array<std::byte, wire::kIntroductionMax + kLowWater> packet;
  const std::size_t header = encode(wire::Introduction{asks, qpn, own}, packet);
  const std::size_t size = from.get(packet.data() + header, kLowWater);
  sockaddr_storage there{};
  rdmacm::to_sockaddr({to.ip, to.port}, AF_UNSPEC, RDMA_PS_UDP, there);
  auto* plain = reinterpret_cast<sockaddr*>(&there);
  const ssize_t sent = ::sendto(udp_, packet.data(), header + size, 0, plain, rdmacm::address_length(plain));
  return sent < 0 ? -1 : static_cast<ssize_t>(size);
}

int Datagram::find_by_cm(const wire::Sender& to) {
  Question question;
  if (!question.resolve({}, to)) return -1;
  uint32_t own_qpn = 0;
  {
    const std::lock_guard lock(mutex_);
    const DatagramPort* port = port_of(question.own());
    if (port == nullptr) return -1;
    own_qpn = port->qpn();
  }
  std::array<std::byte, kRequestMax> data{};
  const std::size_t size = encode(wire::Introduction{true, own_qpn, question.own()}, data);
  data[size] = static_cast<std::byte>(own_port_ >> 8);
  data[size + 1] = static_cast<std::byte>(own_port_);
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(size + 2);
  param.qp_num = own_qpn;
  const bool asked = rdma_connect(&question.id(), &param) == 0;
  if (!asked && (question.id().event == nullptr || question.id().event->status <= 0)) return -1;
  const rdma_cm_event& answer = *question.id().event;
  // A status that is not an errno value is a rejection by the peer's connection manager.
  if (number_of(answer.event) != RDMA_CM_EVENT_ESTABLISHED) return minus_one(ECONNREFUSED);
  const std::lock_guard lock(mutex_);
  learn(to, port_of(question.own()), answer.param.ud.ah_attr, answer.param.ud.qp_num);
  return 0;
}

void Datagram::on_cm_readable() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    const bool request = number_of(event->event) == RDMA_CM_EVENT_CONNECT_REQUEST;
    rdma_cm_id* id = event->id;
    if (request) on_request(*event);
    rdma_ack_cm_event(event);
    if (request) rdma_destroy_id(id);
  }
  if (errno != EAGAIN) Watcher::addresses().remove(channel_->fd);
}

void Datagram::on_request(const rdma_cm_event& event) {
  const auto* data = static_cast<const std::byte*>(event.param.ud.private_data);
  const std::span<const std::byte> bytes(data, data != nullptr ? event.param.ud.private_data_len : std::size_t{0});
  const auto asked = wire::decode_introduction(bytes);
  const auto local = rdmacm::to_address(&event.id->route.addr.src_addr);
  if (!asked || bytes.size() < asked->second + 2 || !local) {
    rdma_reject(event.id, nullptr, 0);
    return;
  }
  const auto high = std::to_integer<unsigned>(bytes[asked->second]);
  const auto low = std::to_integer<unsigned>(bytes[asked->second + 1]);
  const wire::Sender peer{asked->first.ip, static_cast<uint16_t>(high << 8 | low)};
  rdma_conn_param param{};
  {
    const std::lock_guard lock(mutex_);
    DatagramPort* port = port_of(local->ip);
    if (port == nullptr) return;
    learn(peer, port, event.param.ud.ah_attr, asked->first.qpn);
    param.qp_num = port->qpn();
  }
  rdma_accept(event.id, &param);
}

void Datagram::on_udp_readable() {
  std::array<std::byte, wire::kIntroductionMax + kLowWater> packet;
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  auto* plain = reinterpret_cast<sockaddr*>(&from);
  const ssize_t size = ::recvfrom(udp_, packet.data(), packet.size(), MSG_DONTWAIT, plain, &length);
  if (size <= 0) return;
  const std::span<const std::byte> bytes(packet.data(), static_cast<std::size_t>(size));
  const auto introduction = wire::decode_introduction(bytes);
  const auto peer = rdmacm::to_address(plain);
  if (!introduction || !peer) return;  // not a request from an rsocket
  on_introduction(introduction->first, {peer->ip, peer->port}, bytes.subspan(introduction->second));
}

void Datagram::on_introduction(const wire::Introduction& of, const wire::Sender& peer,
                               std::span<const std::byte> data) {
  const auto own = kernel_source(peer);
  if (!own) return;
  uint32_t qpn = 0;
  bool known_already = false;
  {
    const std::lock_guard lock(mutex_);
    const DatagramPort* port = port_of(*own);
    if (port == nullptr) return;
    qpn = port->qpn();
    const auto destination = known(peer);
    known_already = destination && destination->qpn == of.qpn;
  }
  if (of.asks) introduce(peer, *own, qpn, IoCursor({}), false);
  ibv_ah_attr where{};
  const bool found = !known_already && find_route(*own, peer, where);
  const std::lock_guard lock(mutex_);
  if (found) learn(peer, port_of(*own), where, of.qpn);
  if (of.asks) deliver({peer, nullptr, 0, {}, {data.begin(), data.end()}});
}

bool Datagram::find_route(const Gid& own, const wire::Sender& peer, ibv_ah_attr& where) {
  Question question;
  if (!question.resolve(own, peer)) return false;
  const rdma_cm_id& id = question.id();
  const ibv_sa_path_rec& path = *id.route.path_rec;
  where.is_global = 1;
  where.grh.dgid = path.dgid;
  where.grh.sgid_index = index_of(id, path.sgid);
  where.grh.hop_limit = path.hop_limit;
  where.grh.traffic_class = path.traffic_class;
  where.port_num = id.port_num;
  return true;
}

}  // namespace uroce::dropin::rsocket
