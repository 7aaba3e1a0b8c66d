// A manager's pause in a planned restart.
#include <cerrno>
#include <chrono>

#include "base/dead_owner.h"
#include "cm/manager_impl.h"
#include "cm/manager_user.h"

namespace uroce::cm {
namespace {

/// A turn that moves a queue pair waits for its engine, which has a timeout of its own.
constexpr std::chrono::seconds kPausePatience{6};
/// So long a program may take for the calls up to rdma_listen(3) that a pause has held up.
constexpr std::chrono::seconds kListenersAwaited{1};

}  // namespace

Result<void> Manager::Impl::pause() {
  if (pausing.exchange(true, std::memory_order_acq_rel)) return {};
  wake.signal();
  const Nanos until = steady_now() + kPausePatience;
  while (turns == Turns::own_thread && !parked.load(std::memory_order_acquire)) {
    if (steady_now() > until) {
      end_pause();
      return fail(ETIMEDOUT, "the connection manager still waits for an engine; try again");
    }
    wait_step();
  }
  const Guard guard(*this);
  for (const auto& agent : agents) agent->gsi->hold(true);
  return {};
}

bool Manager::Impl::outlive_threads() {
  const bool half_done = free_of_dead_owner(mutex) || moving;
  holder.store({}, std::memory_order_relaxed);
  pausing.store(true, std::memory_order_relaxed);
  parked.store(true, std::memory_order_relaxed);
  return !half_done;
}

// This thread may be the one that polls the engines.
void Manager::Impl::wait_step() {
  if (agents.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } else {
    agents.front()->device->runner().host().wait_step();
  }
}

void Manager::Impl::end_pause() {
  const std::scoped_lock lock(pause_mutex);
  pausing.store(false, std::memory_order_release);
  parked.store(false, std::memory_order_relaxed);
  pause_changed.notify_all();
}

// The next pause may begin before the thread has seen the end of this one.
void Manager::Impl::park() {
  std::unique_lock lock(pause_mutex);
  const auto paused = [this] {
    return pausing.load(std::memory_order_acquire) && !stopping.load(std::memory_order_relaxed);
  };
  while (paused()) {
    parked.store(true, std::memory_order_release);
    pause_changed.wait(lock, [&] { return !paused() || !parked.load(std::memory_order_relaxed); });
  }
}

void Manager::Impl::resume() {
  if (!pausing.load(std::memory_order_acquire)) return;
  {
    const Guard guard(*this);
    for (const auto& agent : agents) {
      if (adopted) end_connections_of_nobody(*agent);
      agent->cm.await_listeners(now + kListenersAwaited);
      agent->gsi->hold(false);
    }
    if (std::exchange(adopted, false)) {
      for (User* const user : users) user->pay_what_is_owed();
    }
    planned.store(Nanos(0), std::memory_order_relaxed);
  }
  end_pause();
}

// They are of programs that the other daemon could not hand over.
void Manager::Impl::end_connections_of_nobody(CmAgent& agent) {
  for (const ConnectionSnapshot& one : agent.cm.snapshot(now)) {
    if (one.c.owned && !agent.connections.contains(one.c.id)) carry_out(agent, agent.cm.destroy(one.c.id, now));
  }
}

}  // namespace uroce::cm
