// All that a manager has, for the manager of another daemon.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cm/manager_impl.h"
#include "cm/manager_user.h"
#include "control/qp.h"

namespace uroce::cm {
ManagerSnapshot Manager::Impl::snapshot() {
  const Guard guard(*this);
  ManagerSnapshot out{.next_number = next_number};
  for (const auto& agent : agents) {
    note_wrong_keys(*agent);
    out.agents.push_back({.device = agent->device->config().name,
                          .ids = agent->cm.comm_ids(),
                          .last_slowed = agent->last_slowed,
                          .guesses = agent->cm.guesses(now),
                          .connections = agent->cm.snapshot(now),
                          .gsi = agent->gsi->snapshot(now)});
    out.agents.back().counters = counters_of(*agent);
  }
  out.slowed = slowdown.snapshot(now);
  return out;
}

IdSnapshot Manager::Impl::snapshot_of(const Id& id) const {
  const auto until = resolving.until(id);
  IdSnapshot out{.number = id.number,
                 .space = id.space,
                 .type = id.type,
                 .state = static_cast<uint8_t>(IdState{id.state}),
                 .local = id.local,
                 .remote = id.remote,
                 .holds_port = id.holds_port,
                 .device = id.agent != nullptr ? id.agent->device->config().name : "",
                 .sgid = id.sgid,
                 .dgid = id.dgid,
                 .type_of_service = id.type_of_service,
                 .reuse_address = id.reuse_address,
                 .af_only = id.af_only,
                 .ack_timeout = id.ack_timeout,
                 .backlog = id.backlog != nullptr ? id.backlog->limit() : 0,
                 .connection = id.connection,
                 .psn = id.psn,
                 .responder_resources = id.responder_resources,
                 .initiator_depth = id.initiator_depth,
                 .listener = id.listener,
                 .held = id.held,
                 .answer = id.answer,
                 .groups = id.groups,
                 .qp = id.qp.lock()};
  if (until) out.resolving = std::max(*until - now, Nanos(0));
  return out;
}

uint32_t User::number_of(const EventChannel& channel) const {
  const auto found = std::ranges::find_if(channels_, [&](const auto& one) { return one.second.get() == &channel; });
  return found != channels_.end() ? found->first : 0;
}

std::map<std::pair<const CmAgent*, uint32_t>, uint32_t> User::turns_of_requests() const {
  std::map<std::pair<const CmAgent*, uint32_t>, uint32_t> out;
  for (const uint32_t number : owner_.ids) {
    const Id& listener = *manager_.ids.at(number);
    if (listener.state != IdState::listening) continue;
    for (const auto* backlog : {listener.backlog.get(), listener.holds.get()}) {
      uint32_t turn = 0;
      for (const uint32_t connection : backlog->requests()) {
        for (const auto& agent : manager_.agents) {
          if (agent->connections.contains(connection)) out.emplace(std::pair(agent.get(), connection), ++turn);
        }
      }
    }
  }
  return out;
}

ProgramSnapshot User::snapshot() {
  const Manager::Guard guard(manager_);
  ProgramSnapshot out{.last_channel = last_channel_};
  std::set<std::pair<uint32_t, const EventChannel*>> channels;
  for (const auto& [number, channel] : channels_) {
    out.channels.push_back({.number = number,
                            .owed = static_cast<uint32_t>(channel->owed()),
                            .read_end = channel->pipe.read_end(),
                            .write_end = channel->pipe.write_end()});
    channels.emplace(number, channel.get());
  }
  const auto turns = turns_of_requests();
  for (const uint32_t number : owner_.ids) {
    const Id& id = *manager_.ids.at(number);
    IdSnapshot& one = out.ids.emplace_back(manager_.snapshot_of(id));
    one.channel = number_of(*id.channel);
    channels.emplace(one.channel, id.channel.get());
    const auto turn = turns.find({id.agent, id.connection});
    if (turn != turns.end()) one.turn = turn->second;
  }
  for (const auto& [number, channel] : channels) {
    for (const CmEvent& event : channel->events) {
      if (manager_.ids.contains(event.id)) out.events.emplace_back(number, event);
    }
  }
  return out;
}

}  // namespace uroce::cm
