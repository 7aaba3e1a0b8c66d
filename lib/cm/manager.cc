#include "cm/manager.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "cm/manager_impl.h"
#include "net/address.h"

namespace uroce::cm {
namespace {

constexpr std::size_t kFewDisowned = 64;
/// With so many connections that begin or end, datagrams are gathered before the thread handles them, for so long for
/// each of these connections: a small part of the time that one takes.
constexpr std::size_t kManyChanging = 16;
constexpr Nanos kGatherForEach = std::chrono::microseconds(10);
constexpr Nanos kGatherAtMost = std::chrono::milliseconds(1);
/// The thread wakes at least this often.
constexpr Nanos kHousekeepingInterval = std::chrono::seconds(1);

}  // namespace

std::string text_of(const CmAddress& address) {
  return fmt::format("{}{}{}:{}", address.ip.is_ipv4() ? "" : "[", net::to_text(address.ip),
                     address.ip.is_ipv4() ? "" : "]", address.port);
}

std::unexpected<Error> wrong_state(const Id& id, const char* call, const char* needed) {
  static constexpr const char* kNames[] = {
      "idle",      "bound",      "address being resolved", "address resolved", "route resolved",
      "listening", "connecting", "REP received",           "REQ held back",    "REQ received",
      "accepted",  "connected",  "disconnecting",          "disconnected"};
  return fail(EINVAL, fmt::format("{}: communication id {} is in state '{}', but the call needs {}", call, id.number,
                                  kNames[static_cast<std::size_t>(IdState{id.state})], needed));
}

// --- Agents ----------------------------------------------------------------------------------------------------

std::optional<uint8_t> CmAgent::gid_index(const Gid& gid) const {
  const auto gids = device->gids();
  const auto found = std::ranges::find(gids, gid);
  return found == gids.end() ? std::nullopt : std::optional(static_cast<uint8_t>(found - gids.begin()));
}

// --- Turns ----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Manager>> Manager::start(const std::vector<std::shared_ptr<control::Device>>& devices,
                                                const Secret& seed, Turns turns) {
  auto pipe = control::EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  auto impl = std::make_shared<Impl>(seed, turns, std::move(*pipe));
  for (const auto& device : devices) {
    auto gsi = Gsi::open(device);
    if (!gsi) return std::unexpected(gsi.error());
    const auto& mac = device->config().mac.bytes;
    IbCmConfig config{.seed = seed.derive("cm", impl->agents.size())};
    for (const uint8_t byte : mac) config.ca_guid = config.ca_guid << 8 | byte;
    impl->agents.push_back(std::make_unique<CmAgent>(device, std::move(*gsi), config));
  }
  if (turns == Turns::own_thread) impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<Manager>(new Manager(std::move(impl)));
}

Manager::Manager(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Manager::~Manager() {
  if (impl_->thread.joinable()) {
    impl_->stopping.store(true, std::memory_order_release);
    impl_->wake.signal();
    impl_->thread.join();
  }
  impl_->end();
}

bool Manager::turn(Nanos now) { return impl_->turn(now); }
Nanos Manager::deadline() const { return impl_->planned.load(std::memory_order_relaxed); }

void Manager::Impl::run() {
  std::vector<pollfd> waiting{{.fd = wake.read_end(), .events = POLLIN, .revents = 0}};
  for (const auto& agent : agents) waiting.push_back({.fd = agent->gsi->fd(), .events = POLLIN, .revents = 0});
  while (!stopping.load(std::memory_order_acquire)) {
    Nanos until{0};
    bool gather = false;
    {
      const Guard guard(*this);
      (void)work();
      until = deadline();
      planned.store(until, std::memory_order_relaxed);
      gather = gathering;
    }
    const auto left = std::clamp(until - steady_now(), Nanos(0), kHousekeepingInterval);
    const timespec time{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    const std::size_t heeded = gather ? 1 : waiting.size();
    if (left <= Nanos(0) || ppoll(waiting.data(), heeded, &time, nullptr) <= 0) continue;
    if (waiting[0].revents != 0) {
      std::array<char, 64> tokens{};
      while (read(wake.read_end(), tokens.data(), tokens.size()) == static_cast<ssize_t>(tokens.size())) {
      }
    }
    for (std::size_t i = 0; i < agents.size() && !gather; ++i) {
      if (waiting[i + 1].revents != 0) agents[i]->gsi->read_events();
    }
  }
}

bool Manager::Impl::turn(Nanos at) {
  const bool arrived = std::ranges::any_of(agents, [](const auto& agent) { return agent->gsi->ready(); });
  if (!arrived && at < planned.load(std::memory_order_relaxed)) return false;
  // A call of this thread that waits for the engines polls them, and comes by here.
  if (holder.load(std::memory_order_relaxed) == std::this_thread::get_id()) return false;
  const Guard guard(*this, at);
  if (!guard.held()) return false;
  const bool worked = work();
  planned.store(deadline(), std::memory_order_relaxed);
  return worked;
}

bool Manager::Impl::work() {
  more = false;
  const bool gathered = gathering;
  const bool threaded = turns == Turns::own_thread;
  std::size_t taken = 0;
  for (const auto& agent : agents) {
    const auto handle = [&](const Gid& source, const Gid& destination, std::span<const std::byte> mad) {
      carry_out(*agent, agent->cm.on_mad(source, destination, mad, now));
      ++taken;
    };
    more |= agent->gsi->take(handle, gathered || !threaded ? Gsi::Then::comes_back : Gsi::Then::waits);
    while (auto due = agent->cm.poll(now)) carry_out(*agent, std::move(*due));
    if (now >= agent->gsi->next_retry()) agent->gsi->retry(now);
  }
  connect_answered();
  check_resolving();
  gathering = threaded && taken > 0 && changing >= kManyChanging;
  if (gathered && !gathering) more = true;  // look once more, with the next datagram's event asked for
  return taken > 0;
}

Nanos Manager::Impl::deadline() const {
  if (more) return Nanos(0);
  const Nanos gather = std::min<Nanos>(kGatherForEach * static_cast<int64_t>(changing), kGatherAtMost);
  Nanos next = now + kHousekeepingInterval;
  if (gathering) next = now + gather;
  if (!resolving.empty()) next = std::min(next, resolving.next_look());
  for (const auto& agent : agents) {
    next = std::min({next, agent->cm.next_deadline(), agent->gsi->next_retry()});
  }
  return next;
}

void Manager::Impl::reschedule() {
  const Nanos next = deadline();
  if (next >= planned.load(std::memory_order_relaxed)) return;
  planned.store(next, std::memory_order_relaxed);
  if (turns == Turns::own_thread) wake_owed.store(true, std::memory_order_relaxed);
}

// --- Ids and events --------------------------------------------------------------------------------------------

Id& Manager::Impl::make_id(Owner& owner, std::shared_ptr<EventChannel> channel, PortSpace space, QpType type) {
  auto id = std::make_unique<Id>(changing);
  do {
    id->number = next_number++;
  } while (id->number == 0 || ids.contains(id->number));
  id->owner = &owner;
  owner.ids.insert(id->number);
  id->channel = std::move(channel);
  id->space = space;
  id->type = type;
  id->psn = static_cast<uint32_t>(psns.next()) & 0xffffff;
  Id& made = *id;
  ids.emplace(made.number, std::move(id));
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
