// Ids: creating, binding, resolving, listening, options, migrating to another channel (rdma_create_id(3) and others).
#include <endian.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "dropin/common/foreign_enum.h"
#include "dropin/rdmacm/address.h"
#include "dropin/rdmacm/objects.h"

namespace uroce::dropin::rdmacm {

namespace {

constexpr uint8_t kExactly = 2;
constexpr uint8_t kRate100G = 16;  // IBV_RATE_100_GBPS

ibv_gid to_gid(const Gid& from) {
  ibv_gid to{};
  std::memcpy(to.raw, from.bytes.data(), sizeof(to.raw));
  return to;
}

ibv_sa_path_rec to_path(const CmIdInfo& info) {
  ibv_sa_path_rec path{};
  path.dgid = to_gid(info.dgid);
  path.sgid = to_gid(info.sgid);
  path.hop_limit = info.hop_limit;
  path.traffic_class = info.traffic_class;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htobe16(kFullMember);
  path.mtu_selector = kExactly;
  path.mtu = static_cast<uint8_t>(info.mtu);
  path.rate_selector = kExactly;
  path.rate = kRate100G;
  path.packet_life_time_selector = kExactly;
  // The ACK timeout is at least twice the packet lifetime (IBTA vol. 1, 9.7.6.1.3).
  path.packet_life_time = info.ack_timeout > 0 ? static_cast<uint8_t>(info.ack_timeout - 1) : 0;
  return path;
}

bool is_any(const Gid& ip) { return ip == Gid{} || ip == Gid::from_ipv4(0); }

bool is_set(const CmAddress& address) { return !is_any(address.ip) || address.port != 0; }

sa_family_t family_of(const Gid& ip) { return ip.is_ipv4() || is_any(ip) ? AF_INET : AF_INET6; }

}  // namespace

Id::Id(EventChannel* owner, CmId made, void* application, uint32_t space, uint32_t type)
    : rdma_cm_id{}, client(owner->state->client), api(std::move(made)) {
  channel = owner;
  context = application;
  ps = static_cast<rdma_port_space>(space);
  qp_type = static_cast<ibv_qp_type>(type);
}

Id::~Id() {
  if (device != nullptr) client->devices.leave(device);
  if (sync) delete channel_of();
}

Result<void> Id::refresh(bool with_path) {
  const auto known = api.info();
  if (!known) return std::unexpected(known.error());
  const CmIdInfo& info = *known;
  if (family == AF_UNSPEC && is_set(info.local)) family = family_of(info.local.ip);
  to_sockaddr(info.local, family, ps, route.addr.src_storage);
  // Keep the destination address that the application passed to be resolved: it may have a scope id.
  if (route.addr.dst_addr.sa_family == AF_UNSPEC && is_set(info.remote)) {
    to_sockaddr(info.remote, family, ps, route.addr.dst_storage);
  }
  if (info.device.empty()) return {};
  rdma_ib_addr& gids = route.addr.addr.ibaddr;
  gids.sgid = to_gid(info.sgid);
  gids.dgid = to_gid(info.dgid);
  if (with_path) {
    path = to_path(info);
    route.path_rec = &*path;
    route.num_paths = 1;
  }
  if (device != nullptr) return {};
  auto used = client->devices.use(info.device);
  if (!used) return std::unexpected(used.error());
  device = *used;
  verbs = device->verbs;
  pd = device->pd;
  port_num = 1;
  gids.pkey = htobe16(kFullMember);
  return {};
}

Id* make_id(rdma_event_channel* channel, void* context, uint32_t space, uint32_t type) {
  std::unique_ptr<EventChannel> own;
  if (channel == nullptr) {
    own = make_channel();
    if (own == nullptr) return nullptr;
    channel = own.get();
  }
  EventChannel* over = of(channel);
  auto made = over->state->client->api.create_id(*over->state->api, to_api<PortSpace>(space), to_api<QpType>(type));
  if (!made) return report_null(made.error());
  auto* id = new Id(over, std::move(*made), context, space, type);
  id->sync = own.release() != nullptr;
  const std::lock_guard lock(id->client->mutex);
  id->client->ids.emplace(id->api.number(), id);
  return id;
}

}  // namespace uroce::dropin::rdmacm

using namespace uroce;
using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

namespace {

using std::chrono::milliseconds;

/// Whether the connection manager has this port space. Others fail, as with the kernel.
bool known(rdma_port_space space) {
  return space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IB || space == RDMA_PS_IPOIB;
}

template <class T>
std::optional<T> option(const void* value, size_t length) {
  T out{};
  if (value == nullptr || length != sizeof(out)) return std::nullopt;
  std::memcpy(&out, value, sizeof(out));
  return out;
}

int set_id_option(Id& id, int name, const void* value, size_t length) {
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  const auto byte = option<uint8_t>(value, length);
  const auto number = option<int>(value, length);
  if (name > RDMA_OPTION_ID_ACK_TIMEOUT || name < 0) return minus_one(ENOSYS);
  if (is_byte ? !byte : !number) return minus_one(EINVAL);
  switch (name) {
    case RDMA_OPTION_ID_TOS: return done(id.api.set_type_of_service(*byte));
    case RDMA_OPTION_ID_REUSEADDR: return done(id.api.set_reuse_address(*number != 0));
    case RDMA_OPTION_ID_AFONLY: return done(id.api.set_af_only(*number != 0));
    default: return done(id.api.set_ack_timeout(*byte));
  }
}

/// The daemon's routing table decides the path: setting a path only resolves the route.
int set_path(Id& id, size_t length) {
  constexpr milliseconds kTime{2000};
  if (length == 0 || length % sizeof(ibv_path_data) != 0) return minus_one(EINVAL);
  return done(id.api.resolve_route(kTime));
}

}  // namespace

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
  if (!known(ps)) return minus_one(EINVAL);
  const bool datagrams = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP;
  Id* made = make_id(channel, context, ps, datagrams ? IBV_QPT_UD : IBV_QPT_RC);
  if (made == nullptr) return -1;
  *id = made;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* cm_id) {
  Id* id = of(cm_id);
  {
    const std::lock_guard lock(id->client->mutex);
    id->client->ids.erase(id->api.number());
  }
  if (id->event != nullptr) rdma_ack_cm_event(id->event);
  wait_for_acks(*id->client, id->events);
  delete id;
  return 0;
}

int rdma_bind_addr(rdma_cm_id* cm_id, sockaddr* addr) {
  Id& id = *of(cm_id);
  const auto local = to_address(addr);
  if (!local) return minus_one(EINVAL);
  const auto bound = id.api.bind(*local);
  if (!bound) return report_minus_one(bound.error());
  id.family = addr->sa_family;
  return done(id.refresh(false));
}

int rdma_resolve_addr(rdma_cm_id* cm_id, sockaddr* src_addr, sockaddr* dst_addr, int timeout_ms) {
  Id& id = *of(cm_id);
  const auto remote = to_address(dst_addr);
  const auto local = to_address(src_addr);
  if (!remote || (src_addr != nullptr && !local)) return minus_one(EINVAL);
  const auto asked = id.api.resolve_addr(local, *remote, milliseconds(std::max(timeout_ms, 0)));
  if (!asked) return report_minus_one(asked.error());
  id.family = dst_addr->sa_family;
  if (dst_addr != &id.route.addr.dst_addr) {
    std::memcpy(&id.route.addr.dst_storage, dst_addr, address_length(dst_addr));
  }
  return complete(id);
}

int rdma_resolve_route(rdma_cm_id* cm_id, int timeout_ms) {
  Id& id = *of(cm_id);
  const auto asked = id.api.resolve_route(milliseconds(std::max(timeout_ms, 0)));
  return asked ? complete(id) : report_minus_one(asked.error());
}

int rdma_listen(rdma_cm_id* cm_id, int backlog) {
  Id& id = *of(cm_id);
  const auto listening = id.api.listen(backlog);
  return listening ? done(id.refresh(false)) : report_minus_one(listening.error());
}

int rdma_set_option(rdma_cm_id* cm_id, int level, int optname, void* optval, size_t optlen) {
  Id& id = *of(cm_id);
  if (level == RDMA_OPTION_ID) return set_id_option(id, optname, optval, optlen);
  if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH) return set_path(id, optlen);
  return minus_one(ENOSYS);
}

int rdma_migrate_id(rdma_cm_id* cm_id, rdma_event_channel* channel) {
  Id& id = *of(cm_id);
  if (id.sync && channel == nullptr) return minus_one(EINVAL);
  std::unique_ptr<EventChannel> own;
  if (channel == nullptr) {
    own = make_channel();
    if (own == nullptr) return -1;
    channel = own.get();
  }
  const auto moved = id.api.migrate(*of(channel)->state->api);
  if (!moved) return report_minus_one(moved.error());

  if (id.sync) {
    if (id.event != nullptr) rdma_ack_cm_event(id.event);
    id.event = nullptr;
    delete id.channel_of();
  }
  id.channel = channel;
  id.sync = own.release() != nullptr;
  // When this returns, every event of the old channel is acknowledged.
  wait_for_acks(*id.client, id.events);
  return 0;
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(&id->route.addr.src_addr); }

__be16 rdma_get_dst_port(rdma_cm_id* id) { return port_of(&id->route.addr.dst_addr); }

}  // extern "C"
