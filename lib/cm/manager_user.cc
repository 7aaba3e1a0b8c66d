#include "cm/manager_user.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "control/device_limits.h"
#include "control/qp.h"

namespace uroce::cm {
namespace {

/// As deep as the peer offers, in rdma_cm's parameters.
constexpr uint8_t kDeepest = 0xff;

}  // namespace

User::User(std::shared_ptr<Manager::Impl> manager, const UserLimits& limits)
    : alive_(std::move(manager)),
      manager_(*alive_),
      limits_(limits),
      owner_{.ids = {}, .budget = limits.budget, .user = limits.user} {
  const Manager::Guard guard(manager_);
  manager_.users.insert(this);
}

User::~User() {
  {
    const Manager::Guard guard(manager_);
    manager_.users.erase(this);
    end();
    manager_.reschedule();
  }
  // The manager may be moving a queue pair.
  const auto last = keep_queue_pairs();
}

void User::end() {
  while (!owner_.ids.empty()) manager_.destroy(*manager_.ids.at(*owner_.ids.begin()));
  channels_.clear();
}

Result<uint32_t> User::create_id(uint32_t channel, PortSpace space, QpType type) {
  const Manager::Guard guard(manager_);
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return no_channel(channel);
  if (auto ok = check_kind(space, type); !ok) return std::unexpected(ok.error());
  if (auto ok = owner_.reserve_id(); !ok) return std::unexpected(ok.error());
  return manager_.make_id(owner_, found->second, space, type).number;
}

Result<void> User::destroy_id(uint32_t number) {
  return with(number, [this](Id& id) -> Result<void> {
    manager_.destroy(id);
    return {};
  });
}

Result<void> User::resolve_addr(uint32_t number, const std::optional<CmAddress>& local, const CmAddress& remote,
                                std::chrono::milliseconds timeout) {
  return with(number, [&](Id& id) -> Result<void> {
    if (local && id.state == IdState::idle) {
      if (auto bound = manager_.bind(id, *local, limits_.privileged_ports); !bound) return bound;
    }
    return manager_.resolve_addr(id, remote, timeout);
  });
}

Result<void> User::resolve_route(uint32_t number) {
  return with(number, [this](Id& id) -> Result<void> {
    if (id.state != IdState::addr_resolved) return wrong_state(id, "resolve_route", "a resolved address");
    // On Ethernet, a resolved address is a resolved route (annex A16).
    id.state = IdState::route_resolved;
    manager_.raise_event(id, {.type = CmEventType::route_resolved});
    return {};
  });
}

Result<void> User::listen(uint32_t number, int backlog) {
  return with(number, [&](Id& id) -> Result<void> {
    if (id.state == IdState::idle) {
      if (auto bound = manager_.bind(id, {}, true); !bound) return bound;
    }
    return manager_.listen(id, backlog);
  });
}

Result<void> User::connect_qp(uint32_t number, const CmParam& param, const std::shared_ptr<control::ControlQp>& qp) {
  return with(number, [&](Id& id) {
    auto asked = manager_.connect(id, param);
    if (asked) id.qp = qp;
    return asked;
  });
}

Result<void> User::accept_qp(uint32_t number, const CmParam& param, const std::shared_ptr<control::ControlQp>& qp) {
  Result<StepsToRts> steps;
  auto known = with(number, [&](Id& id) -> Result<void> {
    if (id.state != IdState::requested) return wrong_state(id, "accept", "a request that is not answered yet");
    steps = steps_to_rts(id);
    if (!steps) return std::unexpected(steps.error());
    return {};
  });
  if (!known) return known;
  // The program's choice, which may be less than the peer offers.
  if (param.responder_resources != kDeepest) (*steps)[0].attr.max_dest_rd_atomic = param.responder_resources;
  if (param.initiator_depth != kDeepest) (*steps)[1].attr.max_rd_atomic = param.initiator_depth;
  // Without the lock, because this may wait for the network.
  auto done = apply(*qp, *steps, control::kResolveTimeout);
  if (done) done = accept(number, param);
  if (!done) (void)qp->to_error();
  return done;
}

Result<void> User::establish(uint32_t number) {
  return with(number, [this](Id& id) -> Result<void> {
    if (id.state != IdState::replied) return wrong_state(id, "establish", "a REP from the peer");
    auto ready = id.agent->cm.ready(id.connection, {}, manager_.now);
    if (auto sent = manager_.carry_out(*id.agent, std::move(ready)); !sent) return sent;
    manager_.forget_answer(id);
    id.state = IdState::connected;
    return {};
  });
}

void User::report_failure(uint32_t number, int code) {
  (void)with(number, [&](Id& id) -> Result<void> {
    if (id.state == IdState::disconnected) return {};
    auto room = Manager::Impl::check_unread(id, "report_failure");
    if (room) manager_.raise_event(id, {.type = CmEventType::connect_error, .status = -code});
    return room;
  });
}

Result<void> User::notify_established(uint32_t number) {
  return with(number, [this](Id& id) -> Result<void> {
    if (id.state == IdState::connected) return {};
    if (id.state != IdState::accepted) return wrong_state(id, "notify_established", "an accepted request");
    return manager_.carry_out(*id.agent, id.agent->cm.notify_established(id.connection, manager_.now));
  });
}

Result<std::pair<QpAttr, QpAttrMask>> User::qp_attr(uint32_t number, QpState state) {
  const Manager::Guard guard(manager_);
  auto id = find(number);
  if (!id) return std::unexpected(id.error());
  return attributes_of(**id, state);
}

Result<void> User::check_kind(PortSpace space, QpType type) {
  constexpr PortSpace kSpaces[] = {PortSpace::ipoib, PortSpace::tcp, PortSpace::udp, PortSpace::ib};
  if (std::ranges::find(kSpaces, space) == std::end(kSpaces)) {
    return fail(EINVAL,
                fmt::format("unknown port space {:#x}; use IPOIB, TCP, UDP or IB", static_cast<uint32_t>(space)));
  }
  if (!is_known(type) || type == QpType::raw_packet) {
    return fail(EINVAL, fmt::format("unknown QP type {}; use RC, UC, UD or XRC", static_cast<uint32_t>(type)));
  }
  if (is_xrc(type) && space != PortSpace::ib) {
    return fail(EINVAL, fmt::format("a communication id of type XRC needs port space IB ({:#x}), and got {:#x}",
                                    static_cast<uint32_t>(PortSpace::ib), static_cast<uint32_t>(space)));
  }
  return {};
}

Result<Id*> User::find(uint32_t number) const {
  if (owner_.ids.contains(number)) return manager_.ids.at(number).get();
  if (manager_.ended) return manager_ended();
  return fail(EINVAL, fmt::format("this program has no communication id {}: it was destroyed, or is another program's",
                                  number));
}

Result<void> User::set_option(uint32_t number, message::CmOption option, uint8_t value) {
  using Option = message::CmOption;
  return with(number, [&](Id& id) -> Result<void> {
    switch (option) {
      case Option::type_of_service: id.type_of_service = value; return {};
      case Option::reuse_address:
        if (id.state != IdState::idle) return wrong_state(id, "the option reuse_address", "an idle id");
        id.reuse_address = value != 0;
        return {};
      case Option::af_only:
        if (id.state != IdState::idle) return wrong_state(id, "the option af_only", "an idle id");
        id.af_only = value != 0;
        return {};
      case Option::ack_timeout:
        if (value > 31) return fail(EINVAL, fmt::format("ACK timeout code {} is out of range; use 0 to 31", value));
        if (id.type != QpType::rc && id.type != QpType::xrc_initiator) {
          return fail(EINVAL, "the ACK timeout needs a communication id of type RC or XRC initiator");
        }
        id.ack_timeout = value;
        return {};
    }
    return fail(EINVAL, fmt::format("unknown option {}", static_cast<uint32_t>(option)));
  });
}

Result<void> User::join(uint32_t number, const CmAddress& group, uint64_t token) {
  return with(number, [&](Id& id) -> Result<void> {
    if (id.type != QpType::ud || id.agent == nullptr) {
      return fail(EINVAL, fmt::format("communication id {} cannot join a group: it must be for datagrams and have a "
                                      "device; bind it or resolve an address first",
                                      id.number));
    }
    if (!group.ip.is_multicast()) {
      return fail(EINVAL, fmt::format("{} is not a multicast group", text_of(group)));
    }
    if (auto room = Manager::Impl::check_unread(id, "join"); !room) return room;
    if (id.groups.size() >= kMaxGroups) {
      return fail(ENOMEM, fmt::format("communication id {} has joined {} groups, which is the limit; leave some",
                                      id.number, kMaxGroups));
    }
    if (std::ranges::find(id.groups, group) == id.groups.end()) id.groups.push_back(group);
    const AddressVector av{
        .dgid = group.ip, .sgid_index = id.agent->gid_index(id.sgid).value_or(0), .traffic_class = id.type_of_service};
    manager_.raise_event(id, {.type = CmEventType::multicast_join,
                              .param = {.qpn = kMulticastQpn, .qkey = kUdpQkey},
                              .av = av,
                              .join = token});
    return {};
  });
}

Result<void> User::leave(uint32_t number, const CmAddress& group) {
  return with(number, [&](Id& id) -> Result<void> {
    if (std::erase(id.groups, group) == 0) {
      return fail(EADDRNOTAVAIL, fmt::format("communication id {} has not joined {}", id.number, text_of(group)));
    }
    return {};
  });
}

std::unique_ptr<ManagerUser> Manager::open(const UserLimits& limits) { return std::make_unique<User>(impl_, limits); }

}  // namespace uroce::cm
