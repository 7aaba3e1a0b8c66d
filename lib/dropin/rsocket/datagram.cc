// Calls of a datagram rsocket.
#include "dropin/rsocket/datagram.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dropin/common/kernel_epoll.h"
#include "dropin/common/report.h"
#include "dropin/rdmacm/address.h"
#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

namespace {

std::optional<wire::Sender> to_sender(const sockaddr* address, socklen_t length) {
  const auto converted = length >= rdmacm::address_length(address) ? rdmacm::to_address(address) : std::nullopt;
  if (!converted) return std::nullopt;
  return wire::Sender{converted->ip, converted->port};
}

}  // namespace

std::shared_ptr<Datagram> Datagram::make(int family) {
  auto made = std::make_shared<Datagram>(family);
  made->udp_ = ::socket(family == AF_IB ? AF_INET6 : family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  made->events_ = kernel_epoll::create();
  return made->udp_ >= 0 && made->events_ >= 0 ? made : nullptr;
}

Datagram::~Datagram() {
  for (const int fd : {udp_, events_}) {
    if (fd >= 0) ::close(fd);
  }
}

int Datagram::bind(const sockaddr* address, socklen_t length) { return start(address, length); }

int Datagram::listen(int /*backlog*/) { return minus_one(EOPNOTSUPP); }

int Datagram::accept(sockaddr* /*address*/, socklen_t* /*length*/) { return minus_one(EOPNOTSUPP); }

int Datagram::connect(const sockaddr* address, socklen_t length) {
  const auto to = to_sender(address, length);
  if (!to) return minus_one(EINVAL);
  if (start(nullptr, 0) != 0) return -1;
  const std::lock_guard lock(mutex_);
  connected_ = to;
  return 0;
}

int Datagram::shutdown(int /*how*/) { return 0; }

void Datagram::close() {
  if (started_) Watcher::addresses().remove(udp_);
  if (channel_ != nullptr) Watcher::addresses().remove(channel_->fd);
  if (listener_ != nullptr) rdma_destroy_id(listener_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  const std::lock_guard lock(mutex_);
  for (auto& [peer, destination] : destinations_) {
    if (destination.ah != nullptr) ibv_destroy_ah(destination.ah);
  }
  destinations_.clear();
  arrived_.clear();
  ports_.clear();
}

ssize_t Datagram::send(IoCursor from, int flags, const sockaddr* to, socklen_t length) {
  if (start(nullptr, 0) != 0) return -1;
  const auto given = to != nullptr ? to_sender(to, length) : std::nullopt;
  if (to != nullptr && !given) return minus_one(EINVAL);
  std::optional<wire::Sender> target;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      target = given ? given : connected_;
      if (!target) return minus_one(EDESTADDRREQ);
      if (from.left() > kLowWater - wire::kSenderMax) return minus_one(EMSGSIZE);
      const auto destination = known(*target);
      if (!destination) break;
      DatagramPort& port = *destination->port;
      if (from.left() + wire::kSenderMax > port.room()) return minus_one(EMSGSIZE);
      if (!port.can_send()) drain();
      if (port.can_send()) {
        const auto size = static_cast<ssize_t>(from.left());
        const auto local = std::ranges::find(ports_, &port, [](const auto& each) { return each.second.get(); });
        return port.send({Gid{local->first}, own_port_}, from, destination->ah, destination->qpn) == 0 ? size : -1;
      }
    }
    if (non_blocking(flags)) return minus_one(EWOULDBLOCK);
    pollfd self{udp_, POLLOUT, 0};
    if (rpoll(&self, 1, -1) < 0) return -1;
  }
  return send_unknown(*target, from);
}

ssize_t Datagram::receive(IoCursor to, int flags, sockaddr* from, socklen_t* length) {
  if (start(nullptr, 0) != 0) return -1;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      drain();
      if (!arrived_.empty()) {
        Arrival& first = arrived_.front();
        const std::span<const std::byte> bytes = first.port != nullptr ? first.bytes : std::span(first.kept);
        const std::size_t size = to.put(bytes.data(), bytes.size());
        sockaddr_storage peer{};
        rdmacm::to_sockaddr({first.sender.ip, first.sender.port}, static_cast<sa_family_t>(family()), RDMA_PS_UDP,
                            peer);
        give_address(peer, from, length);
        if ((flags & MSG_PEEK) == 0) {
          if (first.port != nullptr) first.port->post(first.slot);
          arrived_.pop_front();
        }
        return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? bytes.size() : size);
      }
    }
    if (non_blocking(flags)) return minus_one(EWOULDBLOCK);
    pollfd self{udp_, POLLIN, 0};
    if (rpoll(&self, 1, -1) < 0) return -1;
  }
}

void Datagram::drain() {
  for (auto& [ip, port] : ports_) {
    while (const auto received = port->take()) {
      const auto sender = wire::decode_sender(received->bytes);
      if (!sender) {
        port->post(received->slot);
        continue;
      }
      arrived_.push_back({sender->first, port.get(), received->slot, received->bytes.subspan(sender->second), {}});
    }
  }
}

void Datagram::deliver(Arrival arrival) {
  // Buffer as many as the queue pairs hold and drop the rest, as UDP does.
  if (arrived_.size() >= 2 * std::size_t{sizes_.receive_queue}) return;
  arrived_.push_back(std::move(arrival));
  waiters.wake();
}

short Datagram::readiness(short events) {
  drain();
  const bool blocked = std::ranges::any_of(ports_, [](const auto& each) { return !each.second->can_send(); });
  int now = 0;
  if (!arrived_.empty()) now |= POLLIN;
  if (!blocked) now |= POLLOUT;
  return static_cast<short>(now & events);
}

short Datagram::ready(short events) {
  const std::lock_guard lock(mutex_);
  return readiness(events);
}

short Datagram::arm(short events) {
  const std::lock_guard lock(mutex_);
  for (auto& [ip, port] : ports_) port->arm();
  return readiness(events);
}

void Datagram::take_event() {
  const std::lock_guard lock(mutex_);
  for (auto& [ip, port] : ports_) port->take_event();
  waiters.wake();  // other threads waited for the event that this one took
}

DatagramPort* Datagram::port_of(const Gid& ip) {
  auto& port = ports_[ip.bytes];
  if (port != nullptr) return port.get();
  port = DatagramPort::make(ip, sizes_);
  epoll_event event{};
  event.events = EPOLLIN;
  if (port == nullptr || kernel_epoll::ctl(events_, EPOLL_CTL_ADD, port->event_fd(), &event) != 0) {
    ports_.erase(ip.bytes);
    return nullptr;
  }
  port->arm();
  waiters.wake();  // a sleeping thread may have checked before this port existed
  return port.get();
}

std::optional<Destination> Datagram::known(const wire::Sender& to) {
  const auto found = destinations_.find(key(to));
  return found != destinations_.end() ? std::optional(found->second) : std::nullopt;
}

void Datagram::learn(const wire::Sender& peer, DatagramPort* port, ibv_ah_attr where, uint32_t qpn) {
  constexpr std::size_t kPeersMax = 65536;
  const auto there = destinations_.find(key(peer));
  if (there != destinations_.end() && there->second.qpn == qpn && there->second.port == port) return;
  if (there == destinations_.end() && destinations_.size() >= kPeersMax) return;
  ibv_ah* ah = ibv_create_ah(port->pd(), &where);
  if (ah == nullptr) return;
  if (there != destinations_.end()) ibv_destroy_ah(there->second.ah);
  destinations_[key(peer)] = {port, ah, qpn};
}

int Datagram::peer_name(sockaddr* address, socklen_t* length) {
  const std::lock_guard lock(mutex_);
  if (!connected_) return minus_one(ENOTCONN);
  sockaddr_storage peer{};
  rdmacm::to_sockaddr({connected_->ip, connected_->port}, static_cast<sa_family_t>(family()), RDMA_PS_UDP, peer);
  give_address(peer, address, length);
  return 0;
}

int Datagram::own_name(sockaddr* address, socklen_t* length) {
  const std::lock_guard lock(start_mutex_);
  sockaddr_storage own = own_;
  if (own.ss_family == AF_UNSPEC) own.ss_family = static_cast<sa_family_t>(family());
  give_address(own, address, length);
  return 0;
}

int Datagram::set_option(int level, int name, const void* value, socklen_t length) {
  int number = 0;
  if (level != SOL_RDMA) {
    if (setsockopt(udp_, level, name, value, length) != 0) return -1;
    if (level != SOL_SOCKET || (name != SO_RCVBUF && name != SO_SNDBUF)) return 0;
  }
  if (take_number(value, length, number) != 0) return -1;
  const std::lock_guard lock(mutex_);
  if (!ports_.empty()) return level == SOL_RDMA ? minus_one(EINVAL) : 0;
  const auto size = static_cast<uint32_t>(std::max(number, 1));
  if (level == SOL_SOCKET) {
    (name == SO_RCVBUF ? sizes_.receive_bytes : sizes_.send_bytes) = std::min(size, 1u << 29) * 2;
    return 0;
  }
  switch (name) {
    case RDMA_SQSIZE: sizes_.send_queue = std::min(size, kQueueMax); return 0;
    case RDMA_RQSIZE: sizes_.receive_queue = std::min(size, kQueueMax); return 0;
    case RDMA_INLINE: sizes_.inline_bytes = std::min(static_cast<uint32_t>(std::max(number, 0)), kQueueMax); return 0;
    default: return minus_one(ENOTSUP);
  }
}

int Datagram::get_option(int level, int name, void* value, socklen_t* length) {
  if (level != SOL_RDMA) return getsockopt(udp_, level, name, value, length);
  const std::lock_guard lock(mutex_);
  switch (name) {
    case RDMA_SQSIZE: return give_number(static_cast<int>(sizes_.send_queue), value, length);
    case RDMA_RQSIZE: return give_number(static_cast<int>(sizes_.receive_queue), value, length);
    case RDMA_INLINE: return give_number(static_cast<int>(sizes_.inline_bytes), value, length);
    default: return minus_one(ENOTSUP);
  }
}

// Only streams have mapped buffers.
off_t Datagram::map(void*, std::size_t, int, off_t) { return minus_one(EOPNOTSUPP); }
int Datagram::unmap(void*, std::size_t) { return minus_one(EOPNOTSUPP); }
std::size_t Datagram::write_at(IoCursor, off_t, int) { return static_cast<std::size_t>(minus_one(EOPNOTSUPP)); }

}  // namespace uroce::dropin::rsocket
