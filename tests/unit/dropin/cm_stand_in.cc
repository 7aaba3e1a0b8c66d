// Stands in for the daemon's connection manager: all ids are of this process, on the devices of in_process_backend.cc,
// and events come at once. So what lies above cm.h can be tested without a daemon; the manager's own rules are not.
#include <sys/eventfd.h>
#include <unistd.h>
#include <uroce/cm.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace uroce {
namespace client {

namespace {
std::recursive_mutex lock;  // over all there is
}

class CmChannelImpl {
 public:
  ~CmChannelImpl() { close(fd); }
  void push(CmEvent event) {
    events.push_back(std::move(event));
    eventfd_write(fd, 1);
  }
  std::optional<CmEvent> pop();

  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::deque<CmEvent> events;
};

class CmIdImpl {
 public:
  void tell(CmEventType what, int status = 0, CmParam param = {}) {
    CmEvent event;
    event.type = what;
    event.id = number;
    event.status = status;
    event.param = std::move(param);
    if (datagram()) event.av = vector();
    channel->push(std::move(event));
  }
  ~CmIdImpl() {
    const std::lock_guard guard(lock);
    part();
  }
  /// Ends the connection on both sides.
  void part() {
    if (!connected) return;
    connected = false;
    tell(CmEventType::disconnected);
    auto other = peer.lock();
    if (other == nullptr || !other->connected) return;
    other->connected = false;
    other->tell(CmEventType::disconnected);
  }
  bool datagram() const { return type == QpType::ud; }
  AddressVector vector() const {
    AddressVector av;
    av.dgid = info.dgid;
    av.sgid_index = info.sgid_index;
    return av;
  }

  std::shared_ptr<CmImpl> manager;
  std::shared_ptr<CmChannelImpl> channel;
  uint32_t number = 0;
  PortSpace space{};
  QpType type{};
  CmIdInfo info;
  std::weak_ptr<CmIdImpl> peer;
  CmParam mine, theirs;
  bool listening = false, connected = false;
  std::function<bool()> answered;  // what the peer's answer brings about, in the place of connect_response
};

class CmImpl {
 public:
  const DeviceInfo* device_with(const Gid& ip, uint8_t* index) const {
    for (const DeviceInfo& device : devices) {
      for (std::size_t i = 0; i < device.gids.size(); ++i) {
        if (device.gids[i] != ip) continue;
        *index = static_cast<uint8_t>(i);
        return &device;
      }
    }
    return nullptr;
  }
  bool place(CmIdInfo& info) const {
    const DeviceInfo* device = device_with(info.local.ip, &info.sgid_index);
    if (device == nullptr) return false;
    info.device = device->name;
    info.sgid = info.local.ip;
    info.mtu = device->active_mtu;
    info.ack_timeout = 18;
    return true;
  }
  uint16_t free_port() { return next_port++; }
  std::shared_ptr<CmIdImpl> make(std::shared_ptr<CmImpl> self, std::shared_ptr<CmChannelImpl> channel, PortSpace space,
                                 QpType type) {
    auto id = std::make_shared<CmIdImpl>();
    id->manager = std::move(self);
    id->channel = std::move(channel);
    id->number = next_number++;
    id->space = space;
    id->type = type;
    ids[id->number] = id;
    return id;
  }
  std::shared_ptr<CmIdImpl> listener(PortSpace space, const CmAddress& at) {
    for (auto& [number, weak] : ids) {
      auto id = weak.lock();
      if (id == nullptr || !id->listening || id->space != space || id->info.local.port != at.port) continue;
      if (id->info.local.ip == at.ip || id->info.device.empty()) return id;
    }
    return nullptr;
  }

  std::vector<DeviceInfo> devices;
  std::map<uint32_t, std::weak_ptr<CmIdImpl>> ids;
  std::map<uint32_t, std::shared_ptr<CmIdImpl>> requests;
  uint32_t next_number = 1;
  uint16_t next_port = 40000;
};

std::optional<CmEvent> CmChannelImpl::pop() {
  if (events.empty()) return std::nullopt;
  CmEvent event = std::move(events.front());
  events.pop_front();
  if (events.empty()) {
    eventfd_t drained = 0;
    eventfd_read(fd, &drained);
  }
  return event;
}

namespace {

/// The peer's terms, seen from the other side.
CmParam seen(CmParam param) {
  std::swap(param.responder_resources, param.initiator_depth);
  return param;
}

}  // namespace
}  // namespace client

using namespace client;

Result<ConnectionManager> ConnectionManager::open(const DaemonOptions& /*options*/) {
  auto devices = daemon_devices();
  if (!devices) return std::unexpected(devices.error());
  auto impl = std::make_shared<CmImpl>();
  impl->devices = std::move(*devices);
  return ConnectionManager(std::move(impl));
}

Result<CmChannel> ConnectionManager::create_channel() { return CmChannel(std::make_shared<CmChannelImpl>()); }

Result<CmId> ConnectionManager::create_id(const CmChannel& channel, PortSpace space, QpType type) {
  const std::lock_guard guard(lock);
  return CmId(impl_->make(impl_, channel.impl_, space, type));
}

Result<CmId> ConnectionManager::adopt(const CmEvent& request) {
  const std::lock_guard guard(lock);
  auto node = impl_->requests.extract(request.id);
  if (node.empty()) return fail(EINVAL, "no such request");
  return CmId(std::move(node.mapped()));
}

int CmChannel::fd() const { return impl_->fd; }

std::optional<CmEvent> CmChannel::take() {
  const std::lock_guard guard(lock);
  return impl_->pop();
}

namespace {

Result<void> to_rts(const CmId& id, QueuePair& qp) {
  std::vector<QueuePair::Step> steps;
  for (const QpState state : {QpState::rtr, QpState::rts}) {
    const auto step = id.qp_attr(state);
    if (!step) return std::unexpected(step.error());
    steps.push_back({step->first, step->second});
  }
  return qp.modify(steps);
}

}  // namespace

Result<void> CmId::connect(const CmParam& param, QueuePair& qp) {
  {
    const std::lock_guard guard(lock);
    impl_->answered = [this, &qp] {
      const auto done = to_rts(*this, qp);
      if (done) (void)establish();
      return done.has_value();
    };
  }
  return connect(param);
}

Result<void> CmId::accept(const CmParam& param, QueuePair& qp) {
  {
    const std::lock_guard guard(lock);
    impl_->mine = param;
  }
  if (auto done = to_rts(*this, qp); !done) return done;
  return accept(param);
}

Result<void> CmId::disconnect(QueuePair& qp) {
  if (auto done = qp.modify({.state = QpState::error}, QpAttrBit::state); !done) return done;
  return disconnect();
}

uint32_t CmId::number() const { return impl_->number; }

Result<CmIdInfo> CmId::info() const {
  const std::lock_guard guard(lock);
  return impl_->info;
}

Result<void> CmId::bind(const CmAddress& local) {
  const std::lock_guard guard(lock);
  CmIdInfo& info = impl_->info;
  info.local = local;
  const bool any = local.ip == Gid{} || local.ip == Gid::from_ipv4(0);
  if (!any && !impl_->manager->place(info)) return fail(EADDRNOTAVAIL, "no device has that address");
  if (local.port == 0) info.local.port = impl_->manager->free_port();
  return {};
}

Result<void> CmId::resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                                std::chrono::milliseconds /*timeout*/) {
  const std::lock_guard guard(lock);
  CmIdInfo& info = impl_->info;
  uint8_t index = 0;
  if (impl_->manager->device_with(remote.ip, &index) == nullptr && !remote.ip.is_multicast()) {
    impl_->tell(CmEventType::addr_error, -EHOSTUNREACH);
    return {};
  }
  if (local) info.local.ip = local->ip;
  // From the other device, as the two are joined.
  for (const DeviceInfo& device : impl_->manager->devices) {
    if (info.device.empty() && !local && device.gids.front() != remote.ip) info.local.ip = device.gids.front();
  }
  if (!impl_->manager->place(info)) return fail(EADDRNOTAVAIL, "no device has that address");
  if (info.local.port == 0) info.local.port = impl_->manager->free_port();
  info.remote = remote;
  info.dgid = remote.ip;
  impl_->tell(CmEventType::addr_resolved);
  return {};
}

Result<void> CmId::resolve_route(std::chrono::milliseconds /*timeout*/) {
  const std::lock_guard guard(lock);
  impl_->tell(CmEventType::route_resolved);
  return {};
}

Result<void> CmId::listen(int /*backlog*/) {
  const std::lock_guard guard(lock);
  if (impl_->info.local.port == 0) impl_->info.local.port = impl_->manager->free_port();
  impl_->listening = true;
  return {};
}

Result<void> CmId::connect(const CmParam& param) {
  const std::lock_guard guard(lock);
  CmIdImpl& me = *impl_;
  if (param.private_data.size() > (me.datagram() ? 180 : 56)) return fail(EINVAL, "too much private data");
  auto listener = me.manager->listener(me.space, me.info.remote);
  me.mine = param;
  if (listener == nullptr) {
    me.tell(me.datagram() ? CmEventType::unreachable : CmEventType::rejected, me.datagram() ? 1 : 8);
    return {};
  }
  auto child = me.manager->make(me.manager, listener->channel, me.space, me.type);
  child->info.local = me.info.remote;
  child->info.remote = me.info.local;
  child->info.dgid = me.info.local.ip;
  me.manager->place(child->info);
  child->peer = impl_;
  child->theirs = param;
  me.peer = child;
  me.manager->requests[child->number] = child;
  CmEvent event;
  event.type = CmEventType::connect_request;
  event.id = child->number;
  event.listener = listener->number;
  event.param = seen(param);
  event.av = child->vector();
  listener->channel->push(std::move(event));
  return {};
}

Result<void> CmId::accept(const CmParam& param) {
  const std::lock_guard guard(lock);
  auto peer = impl_->peer.lock();
  impl_->mine = param;
  if (peer == nullptr) return fail(EINVAL, "the peer is gone");
  peer->theirs = param;
  peer->theirs.qkey = 0x01234567;
  auto told = impl_->datagram() ? CmEventType::established : CmEventType::connect_response;
  if (peer->answered) told = peer->answered() ? CmEventType::established : CmEventType::connect_error;
  peer->tell(told, told == CmEventType::connect_error ? -EINVAL : 0, seen(peer->theirs));
  return {};
}

Result<void> CmId::establish() {
  const std::lock_guard guard(lock);
  auto peer = impl_->peer.lock();
  if (peer == nullptr) return fail(EINVAL, "the peer is gone");
  impl_->connected = peer->connected = true;
  peer->tell(CmEventType::established, 0, seen(impl_->mine));
  return {};
}

Result<void> CmId::reject(std::span<const std::byte> private_data, uint8_t reason) {
  const std::lock_guard guard(lock);
  CmParam param;
  param.private_data.assign(private_data.begin(), private_data.end());
  if (auto peer = impl_->peer.lock()) peer->tell(CmEventType::rejected, reason, std::move(param));
  impl_->peer.reset();
  return {};
}

Result<void> CmId::disconnect() {
  const std::lock_guard guard(lock);
  impl_->part();
  return {};
}

Result<void> CmId::notify_established() { return {}; }

Result<std::pair<QpAttr, QpAttrMask>> CmId::qp_attr(QpState state) const {
  const std::lock_guard guard(lock);
  QpAttr attr;
  attr.state = state;
  QpAttrMask mask = QpAttrBit::state;
  if (state == QpState::init) {
    attr.access = Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;
    attr.qkey = 0x01234567;
    mask |= QpAttrBit::pkey_index | QpAttrBit::port;
    mask |= impl_->datagram() ? QpAttrBit::qkey : QpAttrBit::access_flags;
  } else if (state == QpState::rtr) {
    attr.path_mtu = impl_->info.mtu;
    attr.av = impl_->vector();
    attr.dest_qpn = impl_->theirs.qpn;
    attr.max_dest_rd_atomic = impl_->mine.responder_resources;
    mask |= QpAttrBit::path_mtu | QpAttrBit::av | QpAttrBit::dest_qpn | QpAttrBit::rq_psn;
    mask |= QpAttrBit::max_dest_rd_atomic | QpAttrBit::min_rnr_timer;
  } else {
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = impl_->mine.initiator_depth;
    mask |= QpAttrBit::timeout | QpAttrBit::retry_cnt | QpAttrBit::rnr_retry | QpAttrBit::sq_psn;
    mask |= QpAttrBit::max_rd_atomic;
  }
  return std::pair(attr, mask);
}

Result<void> CmId::set_type_of_service(uint8_t tos) {
  impl_->info.traffic_class = tos;
  return {};
}
Result<void> CmId::set_reuse_address(bool /*on*/) { return {}; }
Result<void> CmId::set_af_only(bool /*on*/) { return {}; }
Result<void> CmId::set_ack_timeout(uint8_t code) {
  impl_->info.ack_timeout = code;
  return {};
}

Result<void> CmId::join(const CmAddress& group, uint64_t token) {
  const std::lock_guard guard(lock);
  CmEvent event;
  event.type = group.ip.is_multicast() ? CmEventType::multicast_join : CmEventType::multicast_error;
  event.id = impl_->number;
  event.join = token;
  event.av.dgid = group.ip;
  event.av.sgid_index = impl_->info.sgid_index;
  event.param.qpn = kMulticastQpn;
  event.param.qkey = 0x01234567;
  impl_->channel->push(std::move(event));
  return {};
}

Result<void> CmId::leave(const CmAddress& /*group*/) { return {}; }

Result<void> CmId::raise_event(CmEventType type, int status, uint64_t argument) {
  const std::lock_guard guard(lock);
  impl_->channel->push({.type = type, .id = impl_->number, .status = status, .argument = argument});
  return {};
}

Result<void> CmId::migrate(const CmChannel& channel) {
  const std::lock_guard guard(lock);
  auto old = std::exchange(impl_->channel, channel.impl_);
  std::deque<CmEvent> kept;
  while (auto event = old->pop()) {
    if (event->id == impl_->number) {
      impl_->channel->push(std::move(*event));
    } else {
      kept.push_back(std::move(*event));
    }
  }
  for (CmEvent& event : kept) old->push(std::move(event));
  return {};
}

}  // namespace uroce
