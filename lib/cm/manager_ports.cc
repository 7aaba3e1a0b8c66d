// Ports, address resolution and listeners.
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "cm/manager_impl.h"
#include "cm/rdma_header.h"
#include "net/address.h"

namespace uroce::cm {
namespace {

// Linux's default ephemeral ports (ip_local_port_range).
constexpr uint16_t kFirstEphemeral = 32768, kLastEphemeral = 60999;
constexpr uint16_t kFirstUnprivileged = 1024;
/// The most requests that wait to be delivered to the program. Linux allows 1024, but ten thousand peers may start at
/// once.
constexpr uint32_t kMaxBacklog = 16384;
/// The most requests of a listener that wait for their peers' Ethernet addresses. Anybody may send some from addresses
/// that never answer, and they count as the program's ids.
constexpr uint32_t kMaxHeld = 1024;

/// No device has these: an id that binds one is every device's. Linux takes loopback addresses for the wildcard as well
/// (cma_any_addr()).
bool any_address(const Gid& ip) { return net::is_unspecified(ip) || net::is_loopback(ip); }

/// True when two addresses match the same packets. An IPv6 address of every device matches IPv4, too, unless its
/// `_only` flag is set.
bool overlap(const CmAddress& a, bool a_only, const CmAddress& b, bool b_only) {
  if (a.ip == b.ip) return true;
  const bool same_family = a.ip.is_ipv4() == b.ip.is_ipv4();
  if (any_address(a.ip) && (same_family || (!a.ip.is_ipv4() && !a_only))) return true;
  return any_address(b.ip) && (same_family || (!b.ip.is_ipv4() && !b_only));
}

}  // namespace

bool Manager::Impl::excludes(const Id& id, const Id& other, bool both_listen) {
  if (!overlap(id.local, id.af_only.value_or(false), other.local, other.af_only.value_or(false))) return false;
  return both_listen || !id.reuse_address || !other.reuse_address;
}

bool Manager::Impl::clash(const Id& id, const CmAddress& wanted) const {
  const auto found = ports.find({id.space, wanted.port});
  if (found == ports.end()) return false;
  return std::ranges::any_of(found->second, [&](const Id* other) {
    if (other == &id || !overlap(wanted, id.af_only.value_or(false), other->local, other->af_only.value_or(false))) {
      return false;
    }
    // As with SO_REUSEADDR: both must have set it, and the other must not listen.
    return !id.reuse_address || !other->reuse_address || other->state == IdState::listening;
  });
}

Result<void> Manager::Impl::take_port(Id& id, const CmAddress& wanted, bool privileged) {
  CmAddress address = wanted;
  if (address.port == 0) {
    constexpr uint32_t kRange = kLastEphemeral - kFirstEphemeral + 1;
    const auto start = static_cast<uint32_t>(port_numbers.below(kRange));
    uint32_t step = 0;
    for (; step < kRange; ++step) {
      address.port = static_cast<uint16_t>(kFirstEphemeral + (start + step) % kRange);
      if (!ports.contains({id.space, address.port})) break;
    }
    if (step == kRange) {
      return fail(EADDRINUSE, fmt::format("cannot bind a port: all from {} to {} are in use; destroy some ids",
                                          kFirstEphemeral, kLastEphemeral));
    }
  } else if (address.port < kFirstUnprivileged && !privileged) {
    return fail(EACCES, fmt::format("bind: port {} is privileged; run as root, or choose {} or above", address.port,
                                    kFirstUnprivileged));
  } else if (clash(id, address)) {
    return fail(EADDRINUSE,
                fmt::format("bind: {} is in use; choose another port, or 0 for a free one", text_of(address)));
  }
  ports[{id.space, address.port}].push_back(&id);
  id.local = address;
  id.holds_port = true;
  return {};
}

void Manager::Impl::release_port(Id& id) {
  if (!std::exchange(id.holds_port, false)) return;
  const auto found = ports.find({id.space, id.local.port});
  std::erase(found->second, &id);
  if (found->second.empty()) ports.erase(found);
}

CmAgent* Manager::Impl::agent_of(const Gid& gid) {
  const auto found =
      std::ranges::find_if(agents, [&gid](const auto& agent) { return agent->gid_index(gid).has_value(); });
  return found == agents.end() ? nullptr : found->get();
}

Result<void> Manager::Impl::bind(Id& id, const CmAddress& wanted, bool privileged) {
  if (id.state != IdState::idle) return wrong_state(id, "bind", "an idle id");
  CmAgent* agent = nullptr;
  const bool group = wanted.ip.is_multicast();
  if (!any_address(wanted.ip) && !group) {
    agent = agent_of(wanted.ip);
    if (agent == nullptr) {
      return fail(EADDRNOTAVAIL, fmt::format("bind: no device has the address {}; `uroce devices` lists the addresses",
                                             net::to_text(wanted.ip)));
    }
  }
  if (auto taken = take_port(id, wanted, privileged); !taken) return taken;
  id.agent = agent;
  if (agent != nullptr) id.sgid = wanted.ip;
  id.state = IdState::bound;
  return {};
}

Result<std::pair<CmAgent*, Gid>> Manager::Impl::route(const Gid& remote) {
  // Prefer another device that has a route to the address, even if it is a local device's own: with two devices joined
  // back to back, the packets go over the wire.
  CmAgent* const owner = agent_of(remote);
  Error last{ENETUNREACH, "no route: the process has no device"};
  for (const auto& agent : agents) {
    if (agent.get() == owner) continue;
    auto source = agent->device->source_for(remote);
    if (source) return std::pair(agent.get(), *source);
    last = source.error();
  }
  if (owner != nullptr) return std::pair(owner, remote);
  return std::unexpected(last);
}

Result<std::pair<CmAgent*, Gid>> Manager::Impl::first_address(const CmAddress& remote) {
  if (agents.empty()) return fail(ENODEV, "resolve_addr: the process has no device");
  const bool ipv4 = remote.ip.is_ipv4();
  for (const auto& agent : agents) {
    const auto gids = agent->device->gids();
    const auto found = std::ranges::find_if(gids, [ipv4](const Gid& gid) { return gid.is_ipv4() == ipv4; });
    if (found != gids.end()) return std::pair(agent.get(), *found);
  }
  return fail(ENETUNREACH,
              fmt::format("resolve_addr: no device has an address of the family of {}; give it one", text_of(remote)));
}

Result<void> Manager::Impl::resolve_addr(Id& id, const CmAddress& remote, std::chrono::milliseconds timeout) {
  if (id.state != IdState::idle && id.state != IdState::bound)
    return wrong_state(id, "resolve_addr", "an idle or bound id");
  if (auto room = check_unread(id, "resolve_addr"); !room) return room;
  if (net::is_unspecified(remote.ip))
    return fail(EINVAL, "resolve_addr: the destination address is unspecified; pass a host's address");
  if (id.agent != nullptr && id.sgid.is_ipv4() != remote.ip.is_ipv4()) {
    return fail(EINVAL,
                fmt::format("resolve_addr: {} and {} are of different families; bind an address of the destination's",
                            text_of(id.local), text_of(remote)));
  }
  const bool loopback = net::is_loopback(remote.ip);
  std::pair path(id.agent, id.sgid);
  if (id.agent == nullptr) {
    auto found = loopback || remote.ip.is_multicast() ? first_address(remote) : route(remote.ip);
    if (!found) return std::unexpected(found.error());
    path = *found;
  }
  const auto [agent, sgid] = path;
  if (id.state == IdState::idle) {
    if (auto taken = take_port(id, {sgid, 0}, true); !taken) return taken;
  }
  id.agent = agent;
  id.sgid = sgid;
  id.local.ip = loopback ? remote.ip : sgid;
  id.remote = remote;
  id.dgid = loopback ? sgid : remote.ip;  // from the device to itself
  id.state = IdState::resolving;
  begin_resolving(id, std::clamp<Nanos>(timeout, Nanos(0), std::chrono::hours(1)));
  return {};
}

void Manager::Impl::begin_resolving(Id& id, Nanos timeout) {
  resolving.add(*id.owner, id, now, now + timeout);
  check_resolving(id, timeout == Nanos(0));
}

void Manager::Impl::check_resolving() {
  const auto late = [this] {
    return std::ranges::any_of(agents, [](const auto& agent) { return !agent->device->keeps_up(); });
  };
  resolving.look(now, late, [this](Id& id, bool over) { check_resolving(id, over); });
}

void Manager::Impl::check_resolving(Id& id, bool over) {
  // A stranger causes a held request, not the listener's user.
  const auto known = id.agent->device->probe(id.sgid, id.dgid, id.held ? transport::Owner::kNobody : id.owner->user);
  if (!known && known.error().code == EHOSTUNREACH && !over) return;
  resolving.remove(*id.owner, id);
  if (id.held) return end_hold(id, known.has_value());
  if (id.answer) {
    looked_for.emplace_back(id.number, known.has_value());
    return;
  }
  if (id.state != IdState::resolving) return;
  if (known) {
    id.state = IdState::addr_resolved;
    raise_event(id, {.type = CmEventType::addr_resolved});
  } else {
    id.state = IdState::bound;
    const int code = known.error().code == EHOSTUNREACH ? ETIMEDOUT : known.error().code;
    raise_event(id, {.type = CmEventType::addr_error, .status = -code});
  }
}

Result<void> Manager::Impl::listen(Id& id, int backlog) {
  if (id.state != IdState::bound) return wrong_state(id, "listen", "a bound id");
  if (clash(id, id.local)) {
    return fail(EADDRINUSE, fmt::format("listen: {} has a listener already; choose another port", text_of(id.local)));
  }
  const bool most = backlog <= 0 || static_cast<uint32_t>(backlog) > kMaxBacklog;
  return start_listening(id, most ? kMaxBacklog : static_cast<uint32_t>(backlog));
}

Result<void> Manager::Impl::start_listening(Id& id, uint32_t backlog) {
  id.backlog = std::make_shared<Backlog>(backlog);
  id.holds = std::make_shared<Backlog>(kMaxHeld, Backlog::Full::drops_oldest);
  const uint64_t service = rdma_service_id(static_cast<uint16_t>(id.space), id.local.port);
  for (const auto& agent : agents) {
    if (id.agent != nullptr && id.agent != agent.get()) continue;
    if (agent->services[service]++ != 0) continue;
    if (auto ok = agent->cm.listen(service, kMaxBacklog, service); !ok) return ok;
  }
  id.state = IdState::listening;
  return {};
}

void Manager::Impl::stop_listening(Id& id) {
  const uint64_t service = rdma_service_id(static_cast<uint16_t>(id.space), id.local.port);
  for (const auto& agent : agents) {
    if (id.agent != nullptr && id.agent != agent.get()) continue;
    const auto found = agent->services.find(service);
    if (--found->second != 0) continue;
    agent->cm.stop_listening(service);
    agent->services.erase(found);
  }
}

namespace {

/// Whether a listener for queue pairs of `type` takes the request.
bool takes(QpType type, QpType requested) {
  if (type == QpType::ud || is_xrc(type) || is_xrc(requested)) return type == requested;
  return requested != QpType::ud;
}

}  // namespace

Id* Manager::Impl::listener_for(const CmAgent& agent, const CmRequest& request, const CmAddress& local) const {
  Id* const listener = find_listener(request.service_id, local);
  if (listener == nullptr || !takes(listener->type, request.type)) return nullptr;
  return listener->agent == nullptr || listener->agent == &agent ? listener : nullptr;
}

Id* Manager::Impl::find_listener(uint64_t service_id, const CmAddress& local) const {
  const auto found = ports.find({static_cast<PortSpace>(service_id >> 16), static_cast<uint16_t>(service_id)});
  if (found == ports.end()) return nullptr;
  Id* any = nullptr;
  for (Id* id : found->second) {
    if (id->state != IdState::listening) continue;
    if (id->local.ip == local.ip) return id;
    if (any_address(id->local.ip) && overlap(id->local, id->af_only.value_or(false), local, true)) any = id;
  }
  return any;
}

}  // namespace uroce::cm
