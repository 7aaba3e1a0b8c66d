// The turns of a manager: it receives MADs, runs timers and resolves addresses; and its end.
#include <algorithm>
#include <array>
#include <chrono>

#include <poll.h>
#include <unistd.h>

#include "cm/manager_impl.h"
#include "cm/manager_user.h"

namespace uroce::cm {
namespace {

/// With so many connections that begin or end, datagrams are gathered before the thread handles them, for so long for
/// each of these connections: a small part of the time that one takes.
constexpr std::size_t kManyChanging = 16;
constexpr Nanos kGatherForEach = std::chrono::microseconds(10);
constexpr Nanos kGatherAtMost = std::chrono::milliseconds(1);
/// The thread wakes at least this often.
constexpr Nanos kHousekeepingInterval = std::chrono::seconds(1);
/// Between two tries to move queue pairs.
constexpr Nanos kMoveInterval = std::chrono::milliseconds(1);
/// Steps of an engine that sends the last messages. One is a poll, or 20 us.
constexpr int kStepsToTellPeers = 32;

}  // namespace

void Manager::Impl::run() {
  std::vector<pollfd> waiting{{.fd = wake.read_end(), .events = POLLIN, .revents = 0}};
  for (const auto& agent : agents) waiting.push_back({.fd = agent->gsi->fd(), .events = POLLIN, .revents = 0});
  while (!stopping.load(std::memory_order_acquire)) {
    if (pausing.load(std::memory_order_acquire)) park();
    bool gather = false;
    {
      const Guard guard(*this);
      (void)work();
      planned.store(deadline(), std::memory_order_relaxed);
      gather = gathering;
    }
    connect_queue_pairs();
    const Nanos until = planned.load(std::memory_order_relaxed);
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
  if (pausing.load(std::memory_order_relaxed)) return false;
  const bool arrived = std::ranges::any_of(agents, [](const auto& agent) { return agent->gsi->ready(); });
  if (!arrived && at < planned.load(std::memory_order_relaxed)) return false;
  // A call of this thread that waits for the engines polls them, and comes by here.
  if (holder.load(std::memory_order_relaxed) == std::this_thread::get_id()) return false;
  bool worked = false;
  {
    const Guard guard(*this, at);
    if (!guard.held()) return false;
    worked = work();
    planned.store(deadline(), std::memory_order_relaxed);
  }
  // A control call of this thread that polls the engines has the lock that this needs.
  if (std::ranges::none_of(agents, [](const auto& agent) { return agent->device->runner().waits_here(); }))
    connect_queue_pairs();
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
    note_wrong_keys(*agent);
    more |= agent->gsi->take(handle, gathered || !threaded ? Gsi::Then::comes_back : Gsi::Then::waits);
    while (auto due = agent->cm.poll(now)) carry_out(*agent, std::move(*due));
    if (now >= agent->gsi->next_retry()) agent->gsi->retry(now);
  }
  resolve_answered();
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
  if (!looked_for.empty()) next = std::min(next, now + kMoveInterval);
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
