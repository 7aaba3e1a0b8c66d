// A manager that goes on with what that of another daemon has. All of it is input.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/psn.h"
#include "cm/manager_impl.h"
#include "cm/manager_user.h"
#include "control/device_limits.h"
#include "control/qp.h"

namespace uroce::cm {
namespace {

constexpr uint32_t kLargestBacklog = 16384;
constexpr Nanos kLongestResolving = std::chrono::hours(1);

bool needs_device(IdState state) {
  return state != IdState::idle && state != IdState::bound && state != IdState::listening;
}

std::unexpected<Error> senseless(const IdSnapshot& id, const char* what) {
  return fail(EPROTO, fmt::format("communication id {} makes no sense: {}", id.number, what));
}

}  // namespace

Result<void> Manager::Impl::adopt(ManagerSnapshot snapshot) {
  const Guard guard(*this);
  next_number = snapshot.next_number;
  adopted = true;
  for (const SlowedSnapshot& one : snapshot.slowed) slowdown.adopt(one, now);
  Result<void> result;
  for (AgentSnapshot& one : snapshot.agents) {
    if (auto done = adopt(std::move(one)); !done && result) result = done;
  }
  return result;
}

Result<void> Manager::Impl::adopt(AgentSnapshot snapshot) {
  CmAgent* const agent = agent_called(snapshot.device);
  if (agent == nullptr) return fail(ENODEV, fmt::format("there is no device '{}'", snapshot.device.substr(0, 64)));
  agent->cm.adopt(snapshot.ids);
  agent->last_slowed = snapshot.last_slowed;
  adopt_counters(*agent, snapshot.counters);
  for (PeerGuesses& one : snapshot.guesses) {
    one.ago = std::clamp<Nanos>(one.ago, Nanos(0), now);
    agent->cm.adopt(one, now);
  }
  agent->gsi->adopt(std::move(snapshot.gsi), now);
  Result<void> result;
  for (const ConnectionSnapshot& one : snapshot.connections) {
    if (auto done = agent->cm.adopt(one, now); !done && result) result = done;
  }
  return result;
}

Result<void> Manager::Impl::check(const Owner& owner, const IdSnapshot& one) const {
  const auto state = static_cast<IdState>(one.state);
  const CmAgent* const agent = one.device.empty() ? nullptr : agent_called(one.device);
  if (one.number == 0 || ids.contains(one.number)) return senseless(one, "another one has its number");
  if (state > IdState::disconnected || one.psn > Psn::kMask || one.groups.size() > kMaxGroups) {
    return senseless(one, "its state");
  }
  if (agent == nullptr && (!one.device.empty() || needs_device(state) || one.connection != 0)) {
    return senseless(one, "its device");
  }
  if (one.connection != 0 &&
      (agent->cm.find(one.connection) == nullptr || agent->connections.contains(one.connection))) {
    return senseless(one, "its connection");
  }
  if (one.holds_port ? one.local.port == 0 : state == IdState::listening) return senseless(one, "its port");
  if ((state == IdState::listening) != (one.backlog != 0) || one.backlog > kLargestBacklog) {
    return senseless(one, "its backlog");
  }
  if (one.answer && state != IdState::replied) return senseless(one, "an answer");
  if (one.held ? state != IdState::held && state != IdState::disconnected : state == IdState::held) {
    return senseless(one, "a held request");
  }
  const auto listener = ids.find(one.listener);
  const bool listens =
      listener != ids.end() && listener->second->owner == &owner && listener->second->state == IdState::listening;
  if ((one.held || one.turn != 0) && (!listens || one.connection == 0)) return senseless(one, "its listener");
  return {};
}

Result<void> Manager::Impl::adopt(Owner& owner, const std::shared_ptr<EventChannel>& channel, const IdSnapshot& one) {
  if (auto good = check(owner, one); !good) return good;
  if (auto reserved = owner.reserve_id(); !reserved) return reserved;
  Id& id = add_id(owner, channel, one.number);
  id.space = one.space;
  id.type = one.type;
  id.local = one.local;
  id.remote = one.remote;
  id.agent = one.device.empty() ? nullptr : agent_called(one.device);
  id.sgid = one.sgid;
  id.dgid = one.dgid;
  id.type_of_service = one.type_of_service;
  id.reuse_address = one.reuse_address;
  id.af_only = one.af_only;
  id.ack_timeout = one.ack_timeout;
  id.connection = one.connection;
  id.psn = one.psn;
  id.responder_resources = one.responder_resources;
  id.initiator_depth = one.initiator_depth;
  id.listener = one.listener;
  id.held = one.held;
  id.groups = one.groups;
  id.qp = one.qp;
  id.answer = one.answer;
  if (id.connection != 0) id.agent->connections[id.connection] = &id;
  if (id.answer) answered.push_back(id.number);
  const auto state = static_cast<IdState>(one.state);
  if (state == IdState::resolving || id.held) {
    const Nanos left = one.resolving.value_or(control::kResolveTimeout);
    resolving.add(owner, id, now, now + std::clamp(left, Nanos(0), kLongestResolving));
  }
  if (state != IdState::listening) id.state = state;
  return take_port_again(id, one);
}

Result<void> Manager::Impl::take_port_again(Id& id, const IdSnapshot& one) {
  if (!one.holds_port) return {};
  auto& holders = ports[{id.space, id.local.port}];
  for (const Id* const other : holders) {
    const bool both_listen = other->state == IdState::listening && one.backlog != 0;
    if (excludes(id, *other, both_listen)) return senseless(one, "another one has its port");
  }
  holders.push_back(&id);
  id.holds_port = true;
  return one.backlog != 0 ? start_listening(id, one.backlog) : Result<void>();
}

Result<void> Manager::Impl::wait_again(const IdSnapshot& request) {
  const Id& id = *ids.at(request.number);
  const Id& listener = *ids.at(request.listener);
  const auto& backlog = id.state == IdState::held ? listener.holds : listener.backlog;
  if (id.agent->cm.wait(id.connection, backlog)) return {};
  return senseless(request, "its place in a backlog");
}

Result<void> User::adopt(ProgramSnapshot snapshot, std::vector<control::EventPipe> pipes) {
  const Manager::Guard guard(manager_);
  if (auto done = adopt_channels(snapshot, std::move(pipes)); !done) return done;
  if (auto done = adopt_ids(std::move(snapshot.ids)); !done) return done;
  for (auto& [channel, event] : snapshot.events) {
    if (auto done = adopt_event(channel, std::move(event)); !done) return done;
  }
  return {};
}

Result<void> User::adopt_channels(const ProgramSnapshot& snapshot, std::vector<control::EventPipe> pipes) {
  last_channel_ = snapshot.last_channel;
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    const ChannelSnapshot& one = snapshot.channels.at(i);
    auto channel = std::make_shared<EventChannel>(std::move(pipes[i]));
    channel->owe(std::min(one.owed, kMaxUnread));
    if (one.number == 0 || one.number > last_channel_ || !channels_.emplace(one.number, std::move(channel)).second) {
      return fail(EPROTO, fmt::format("event channel {} makes no sense", one.number));
    }
  }
  return {};
}

// Listeners go first, and requests wait in the order of their turns.
Result<void> User::adopt_ids(std::vector<IdSnapshot> snapshots) {
  std::ranges::stable_partition(snapshots, [](const IdSnapshot& one) { return one.backlog != 0; });
  std::shared_ptr<EventChannel> destroyed;
  for (const IdSnapshot& one : snapshots) {
    if (auto known = check_kind(one.space, one.type); !known) return known;
    auto channel = destroyed;
    if (one.channel != 0) {
      const auto found = channels_.find(one.channel);
      if (found == channels_.end()) return senseless(one, "its event channel");
      channel = found->second;
    } else if (channel == nullptr) {
      auto pipe = control::EventPipe::create();
      if (!pipe) return std::unexpected(pipe.error());
      channel = destroyed = std::make_shared<EventChannel>(std::move(*pipe));
    }
    if (auto done = manager_.adopt(owner_, channel, one); !done) return done;
  }
  std::erase_if(snapshots, [](const IdSnapshot& one) { return one.turn == 0; });
  std::ranges::sort(snapshots, {}, &IdSnapshot::turn);
  for (const IdSnapshot& one : snapshots) {
    if (auto done = manager_.wait_again(one); !done) return done;
  }
  return {};
}

Result<void> User::adopt_event(uint32_t channel, CmEvent event) {
  const auto nonsense = [&] {
    return fail(EPROTO, fmt::format("an event of communication id {} makes no sense", event.id));
  };
  const auto found = channels_.find(channel);
  if (!owner_.ids.contains(event.id) || event.type > CmEventType::user) return nonsense();
  Id& id = *manager_.ids.at(event.id);
  if (channel != 0 && found == channels_.end()) return nonsense();
  id.add_unread();
  (channel != 0 ? *found->second : *id.channel).events.push_back(std::move(event));
  return {};
}

// Without events, ending the ids takes no bytes from the pipes.
void User::abandon() {
  const Manager::Guard guard(manager_);
  for (const uint32_t number : owner_.ids) {
    Id& id = *manager_.ids.at(number);
    id.unread = 0;
    id.channel->events.clear();
    (void)id.channel->take_owed();
  }
  owner_.unread = 0;
}

void User::pay_what_is_owed() {
  for (const auto& [number, channel] : channels_) {
    if (channel->owed() != 0) manager_.pay_later(channel);
  }
}

}  // namespace uroce::cm
