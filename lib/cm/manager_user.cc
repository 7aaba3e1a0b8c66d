#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "cm/manager_impl.h"

namespace uroce::cm {

// --- Users -----------------------------------------------------------------------------------------------------

namespace {
/// A limit on migrate()'s `taken`: more events of one id than a program can have taken and not passed on.
constexpr uint32_t kMaxTaken = 64;
/// Of an engine that sends the last messages. One is a poll, or 20 us.
constexpr int kStepsToTellPeers = 32;
}  // namespace

class User final : public ManagerUser {
 public:
  User(std::shared_ptr<Manager::Impl> manager, const UserLimits& limits)
      : alive_(std::move(manager)), manager_(*alive_), limits_(limits), owner_{.ids = {}, .budget = limits.budget} {
    const Manager::Guard guard(manager_);
    manager_.users.insert(this);
  }
  ~User() override {
    const Manager::Guard guard(manager_);
    manager_.users.erase(this);
    end();
    manager_.reschedule();
  }
  /// Under the manager's lock.
  void end() {
    while (!owner_.ids.empty()) manager_.destroy(*manager_.ids.at(*owner_.ids.begin()));
    channels_.clear();
  }

  Result<std::pair<uint32_t, int>> create_channel() override {
    const Manager::Guard guard(manager_);
    if (manager_.ended) return manager_ended();
    auto pipe = control::EventPipe::create();
    if (!pipe) return std::unexpected(pipe.error());
    auto channel = std::make_shared<EventChannel>(std::move(*pipe));
    const int fd = channel->pipe.read_end();
    channels_.emplace(++last_channel_, std::move(channel));
    return std::pair(last_channel_, fd);
  }

  std::shared_ptr<const std::atomic<uint64_t>> changes(uint32_t channel) override {
    const Manager::Guard guard(manager_);
    const auto found = channels_.find(channel);
    return found == channels_.end() ? nullptr : found->second->changes.count();
  }

  Result<void> destroy_channel(uint32_t channel) override {
    const Manager::Guard guard(manager_);
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return no_channel(channel);
    // The program never learns of ids that came with undelivered requests, so destroy them.
    const std::deque<CmEvent> unreported = std::exchange(found->second->events, {});
    channels_.erase(found);
    for (const CmEvent& event : unreported) {
      const auto id = manager_.ids.find(event.id);
      if (id == manager_.ids.end()) continue;
      id->second->remove_unread();
      if (event.type == CmEventType::connect_request) manager_.destroy(*id->second);
    }
    manager_.reschedule();
    return {};
  }

  Result<std::vector<message::CmEventRecord>> take_events(uint32_t channel, std::size_t most) override {
    const Manager::Guard guard(manager_);
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return no_channel(channel);
    auto& waiting = found->second->events;
    std::vector<message::CmEventRecord> out;
    for (; !waiting.empty() && out.size() < most; waiting.pop_front()) {
      if (manager_.ids.contains(waiting.front().id)) {
        out.push_back(report(std::move(waiting.front())));
      } else {
        --found->second->disowned;
      }
    }
    found->second->pay_bytes(out.size());
    return out;
  }

  Result<uint32_t> create_id(uint32_t channel, PortSpace space, QpType type) override {
    const Manager::Guard guard(manager_);
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return no_channel(channel);
    if (auto ok = check_kind(space, type); !ok) return std::unexpected(ok.error());
    if (auto ok = owner_.reserve_id(); !ok) return std::unexpected(ok.error());
    return manager_.make_id(owner_, found->second, space, type).number;
  }

  Result<void> destroy_id(uint32_t number) override {
    return with(number, [this](Id& id) -> Result<void> {
      manager_.destroy(id);
      return {};
    });
  }

  Result<CmIdInfo> info(uint32_t number) override;
  Result<void> bind(uint32_t number, const CmAddress& local) override {
    return with(number, [&](Id& id) { return manager_.bind(id, local, limits_.privileged_ports); });
  }
  Result<void> resolve_addr(uint32_t number, const std::optional<CmAddress>& local, const CmAddress& remote,
                            std::chrono::milliseconds timeout) override {
    return with(number, [&](Id& id) -> Result<void> {
      if (local && id.state == IdState::idle) {
        if (auto bound = manager_.bind(id, *local, limits_.privileged_ports); !bound) return bound;
      }
      return manager_.resolve_addr(id, remote, timeout);
    });
  }
  Result<void> resolve_route(uint32_t number) override {
    return with(number, [this](Id& id) -> Result<void> {
      if (id.state != IdState::addr_resolved) return wrong_state(id, "resolve_route", "a resolved address");
      // On Ethernet, a resolved address is a resolved route (annex A16).
      id.state = IdState::route_resolved;
      manager_.raise_event(id, {.type = CmEventType::route_resolved});
      return {};
    });
  }
  Result<void> listen(uint32_t number, int backlog) override {
    return with(number, [&](Id& id) -> Result<void> {
      if (id.state == IdState::idle) {
        if (auto bound = manager_.bind(id, {}, true); !bound) return bound;
      }
      return manager_.listen(id, backlog);
    });
  }
  Result<void> connect(uint32_t number, const CmParam& param) override {
    return with(number, [&](Id& id) { return manager_.connect(id, param); });
  }
  Result<void> establish(uint32_t number) override {
    return with(number, [](Id& id) -> Result<void> {
      if (id.state != IdState::replied) return wrong_state(id, "establish", "a REP from the peer");
      if (auto sent = id.agent->cm.ready(id.connection, {}, Manager::Impl::now()); !sent) return sent;
      id.state = IdState::connected;
      return {};
    });
  }
  Result<void> accept(uint32_t number, const CmParam& param) override {
    return with(number, [&](Id& id) { return manager_.accept(id, param); });
  }
  Result<void> reject(uint32_t number, std::span<const std::byte> private_data, uint8_t reason) override {
    return with(number, [&](Id& id) { return manager_.reject(id, private_data, reason); });
  }
  Result<void> disconnect(uint32_t number) override {
    return with(number, [&](Id& id) { return manager_.disconnect(id); });
  }
  void report_failure(uint32_t number, int code) override {
    (void)with(number, [&](Id& id) -> Result<void> {
      if (id.state == IdState::disconnected) return {};
      auto room = Manager::Impl::check_unread(id, "report_failure");
      if (room) manager_.raise_event(id, {.type = CmEventType::connect_error, .status = -code});
      return room;
    });
  }
  Result<void> notify_established(uint32_t number) override {
    return with(number, [](Id& id) -> Result<void> {
      if (id.state == IdState::connected) return {};
      if (id.state != IdState::accepted) return wrong_state(id, "notify_established", "an accepted request");
      return id.agent->cm.notify_established(id.connection, Manager::Impl::now());
    });
  }
  Result<std::pair<QpAttr, QpAttrMask>> qp_attr(uint32_t number, QpState state) override {
    const Manager::Guard guard(manager_);
    auto id = find(number);
    if (!id) return std::unexpected(id.error());
    return attributes_of(**id, state);
  }
  Result<void> set_option(uint32_t number, message::CmOption option, uint8_t value) override;
  Result<void> join(uint32_t number, const CmAddress& group, uint64_t token) override;
  Result<void> leave(uint32_t number, const CmAddress& group) override;
  Result<void> migrate(uint32_t number, uint32_t channel, uint32_t taken) override;

 private:
  message::CmEventRecord report(CmEvent event);
  static CmIdInfo info_of(const Id& id);
  static std::unexpected<Error> manager_ended() {
    return fail(ENODEV, "the connection manager has ended with the stack of its devices; open another one");
  }
  std::unexpected<Error> no_channel(uint32_t channel) const {
    if (manager_.ended) return manager_ended();
    return fail(EINVAL, fmt::format("this program has no event channel {}: it was destroyed, or is another program's",
                                    channel));
  }
  static Result<void> check_kind(PortSpace space, QpType type) {
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
  Result<Id*> find(uint32_t number) const {
    if (owner_.ids.contains(number)) return manager_.ids.at(number).get();
    if (manager_.ended) return manager_ended();
    return fail(
        EINVAL,
        fmt::format("this program has no communication id {}: it was destroyed, or is another program's", number));
  }
  template <class Work>
  Result<void> with(uint32_t number, Work work) {
    const Manager::Guard guard(manager_);
    auto id = find(number);
    if (!id) return std::unexpected(id.error());
    Result<void> done = work(**id);
    manager_.reschedule();
    return done;
  }

  const std::shared_ptr<Manager::Impl> alive_;
  Manager::Impl& manager_;
  const UserLimits limits_;
  Owner owner_;
  std::map<uint32_t, std::shared_ptr<EventChannel>> channels_;
  uint32_t last_channel_ = 0;
};

Result<CmIdInfo> User::info(uint32_t number) {
  const Manager::Guard guard(manager_);
  auto found = find(number);
  if (!found) return std::unexpected(found.error());
  return info_of(**found);
}

CmIdInfo User::info_of(const Id& id) {
  CmIdInfo info{.local = id.local, .remote = id.remote, .traffic_class = id.type_of_service};
  if (id.agent == nullptr) return info;
  const auto& config = id.agent->device->config();
  info.device = config.name;
  info.sgid = id.sgid;
  info.sgid_index = id.agent->gid_index(id.sgid).value_or(0);
  info.dgid = id.dgid;
  info.mtu = config.max_path_mtu;
  info.ack_timeout = id.ack_timeout.value_or(kAckTimeout);
  return info;
}

message::CmEventRecord User::report(CmEvent event) {
  const bool answered = event.type == CmEventType::connect_request || event.type == CmEventType::connect_response;
  const bool resolved = event.type == CmEventType::addr_resolved || event.type == CmEventType::route_resolved;
  message::CmEventRecord record{.event = std::move(event)};
  const auto found = manager_.ids.find(record.event.id);
  Id& id = *found->second;
  id.remove_unread();
  if (!answered && !resolved) return record;
  if (answered && id.connection != 0) id.agent->cm.delivered(id.connection);
  record.has_info = true;
  record.known.info = info_of(id);
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    if (resolved && state != QpState::init) break;
    if (const auto step = attributes_of(id, state)) record.steps.push_back({step->second, step->first});
  }
  return record;
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

Result<void> User::migrate(uint32_t number, uint32_t channel, uint32_t taken) {
  return with(number, [&](Id& id) -> Result<void> {
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return no_channel(channel);
    if (found->second == id.channel) return {};
    for (uint32_t i = 0; i < std::min(taken, kMaxTaken); ++i) found->second->add_byte();
    manager_.pay_later(found->second);
    const auto mine = [&](const CmEvent& event) {
      return (event.id == id.number || event.listener == id.number) && manager_.ids.contains(event.id);
    };
    std::vector<CmEvent> moved;
    std::ranges::copy_if(id.channel->events, std::back_inserter(moved), mine);
    id.channel->remove_events(mine);
    id.channel = found->second;
    for (const uint32_t other : id.owner->ids) {
      if (Id& one = *manager_.ids.at(other); one.held && one.listener == id.number) one.channel = id.channel;
    }
    for (CmEvent& event : moved) {
      manager_.ids.at(event.id)->remove_unread();
      // A request's new id moves to its listener's channel.
      if (event.type == CmEventType::connect_request) manager_.ids.at(event.id)->channel = id.channel;
      manager_.raise_event(id, std::move(event));
    }
    return {};
  });
}

std::unique_ptr<ManagerUser> Manager::open(const UserLimits& limits) { return std::make_unique<User>(impl_, limits); }

void Manager::Impl::end() {
  {
    const Guard guard(*this);
    ended = true;
    for (User* const user : users) user->end();
  }
  if (agents.empty()) return;
  control::EngineRunner& runner = agents.front()->device->runner();
  for (int step = 0; step < kStepsToTellPeers && !runner.stopped(); ++step) runner.host().wait_step();
  agents.clear();
}

}  // namespace uroce::cm
