// Ids, the events that wait for their programs, and their end.
#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fmt/format.h>

#include "cm/manager_impl.h"

namespace uroce::cm {
namespace {

constexpr std::size_t kFewDisowned = 64;

}  // namespace

Id& Manager::Impl::add_id(Owner& owner, std::shared_ptr<EventChannel> channel, uint32_t number) {
  Id& made = *ids.emplace(number, std::make_unique<Id>(changing)).first->second;
  made.number = number;
  made.owner = &owner;
  owner.ids.insert(number);
  made.channel = std::move(channel);
  return made;
}

Id& Manager::Impl::make_id(Owner& owner, std::shared_ptr<EventChannel> channel, PortSpace space, QpType type) {
  uint32_t number = 0;
  do {
    number = next_number++;
  } while (number == 0 || ids.contains(number));
  Id& made = add_id(owner, std::move(channel), number);
  made.space = space;
  made.type = type;
  made.psn = static_cast<uint32_t>(psns.next()) & 0xffffff;
  return made;
}

void Manager::Impl::raise_event(const Id& id, CmEvent event) {
  if (event.id == 0) event.id = id.number;
  if (const auto whose = ids.find(event.id); whose != ids.end()) whose->second->add_unread();
  id.channel->add(std::move(event));
  pay_later(id.channel);
}

void Manager::Impl::pay_later(const std::shared_ptr<EventChannel>& channel) {
  if (std::ranges::find(owing, channel) == owing.end()) owing.push_back(channel);
}

Result<void> Manager::Impl::check_unread(const Id& id, const char* call) {
  const auto refuse = [&](const std::string& whose, uint32_t limit) {
    return fail(ENOMEM, fmt::format("{}: {} {} events that were not received, which is the limit; receive them "
                                    "(rdma_get_cm_event) first",
                                    call, whose, limit));
  };
  if (id.unread >= kMaxUnreadOfId) {
    return refuse(fmt::format("communication id {} has", id.number), kMaxUnreadOfId);
  }
  if (id.owner->unread >= kMaxUnread) return refuse("this program's communication ids have", kMaxUnread);
  return {};
}

void Manager::Impl::forget_connection(Id& id) {
  if (id.connection == 0) return;
  id.agent->connections.erase(id.connection);
  carry_out(*id.agent, id.agent->cm.destroy(std::exchange(id.connection, 0), now));
}

std::vector<uint32_t> Manager::Impl::held_for(const Id& listener) const {
  std::vector<uint32_t> out;
  std::ranges::copy_if(listener.owner->ids, std::back_inserter(out), [&](uint32_t number) {
    const Id& one = *ids.at(number);
    return one.held && one.listener == listener.number;
  });
  return out;
}

void Manager::Impl::destroy(Id& id) {
  const bool listened = id.state == IdState::listening;
  if (listened) stop_listening(id);
  forget_connection(id);
  release_port(id);
  resolving.remove(*id.owner, id);
  // Requests whose event the program has not taken are destroyed with their listener.
  std::vector<uint32_t> children, held;
  const auto childs = [&](const CmEvent& event) {
    const bool its =
        event.type == CmEventType::connect_request && event.listener == id.number && ids.contains(event.id);
    if (its) children.push_back(event.id);
    return its;
  };
  if (listened) {
    id.channel->remove_events(childs);
    held = held_for(id);
  }
  const std::shared_ptr<EventChannel> channel = id.channel;
  channel->disown(id.unread);
  id.owner->unread -= id.unread;
  id.owner->remove(id.number);
  ids.erase(id.number);
  for (const uint32_t child : held) destroy(*ids.at(child));
  for (const uint32_t child : children) {
    const auto found = ids.find(child);
    if (found == ids.end()) continue;
    found->second->remove_unread();
    destroy(*found->second);
  }
  // Remove the events of destroyed ids now and then, in one pass over thousands of events for many ids.
  if (channel->disowned > kFewDisowned && 2 * channel->disowned > channel->events.size()) {
    std::erase_if(channel->events, [this](const CmEvent& event) { return !ids.contains(event.id); });
    channel->disowned = 0;
  }
}

}  // namespace uroce::cm
