// A program's event channels, and what it hears on them.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>

#include <fmt/format.h>

#include "cm/manager_user.h"

namespace uroce::cm {
namespace {

/// A limit on migrate()'s `taken`: more events of one id than a program can have taken and not passed on.
constexpr uint32_t kMaxTaken = 64;

/// The calls that the manager has no reason to refuse in the id's state.
message::CmCallMask welcome(const Id& id) {
  using enum message::CmCall;
  switch (id.state) {
    case IdState::addr_resolved: return resolve_route;
    case IdState::route_resolved:
      return id.type != QpType::xrc_target ? message::CmCallMask(connect) : message::CmCallMask();
    case IdState::requested: return accept;
    case IdState::connected: return id.type != QpType::ud ? message::CmCallMask(disconnect) : message::CmCallMask();
    case IdState::disconnected: return message::CmCallMask(disconnect) | destroy;
    default: return {};
  }
}

}  // namespace

Result<std::pair<uint32_t, int>> User::create_channel() {
  const Manager::Guard guard(manager_);
  if (manager_.ended) return manager_ended();
  auto pipe = control::EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  auto channel = std::make_shared<EventChannel>(std::move(*pipe));
  const int fd = channel->pipe.read_end();
  channels_.emplace(++last_channel_, std::move(channel));
  return std::pair(last_channel_, fd);
}

std::shared_ptr<const std::atomic<uint64_t>> User::changes(uint32_t channel) {
  const Manager::Guard guard(manager_);
  const auto found = channels_.find(channel);
  return found == channels_.end() ? nullptr : found->second->changes.count();
}

Result<void> User::destroy_channel(uint32_t channel) {
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

Result<std::vector<message::CmEventRecord>> User::take_events(uint32_t channel, std::size_t most) {
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

std::unexpected<Error> User::no_channel(uint32_t channel) const {
  if (manager_.ended) return manager_ended();
  return fail(EINVAL,
              fmt::format("this program has no event channel {}: it was destroyed, or is another program's", channel));
}

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
  record.welcome = welcome(id);
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

Result<void> User::raise_event(uint32_t number, CmEventType type, int status, uint64_t argument) {
  return with(number, [&](Id& id) -> Result<void> {
    if (type < CmEventType::addrinfo_resolved || type > CmEventType::user) {
      return fail(EINVAL, fmt::format("raise_event: type {} is not a program's to raise; the only ones are user, "
                                      "addrinfo_resolved and addrinfo_error",
                                      static_cast<int>(type)));
    }
    if (auto room = Manager::Impl::check_unread(id, "raise_event"); !room) return room;
    manager_.raise_event(id, {.type = type, .status = status, .argument = argument});
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
    // No other id has requests, and to look for them is to look at all of the program's ids.
    if (id.state == IdState::listening) {
      for (const uint32_t request : manager_.held_for(id)) manager_.ids.at(request)->channel = id.channel;
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

}  // namespace uroce::cm
