// A manager's pause in a planned restart.
#include <cerrno>
#include <chrono>

#include "cm/manager_impl.h"
#include "cm/manager_user.h"

namespace uroce::cm {
namespace {

/// A turn that moves a queue pair waits for its engine, which has a timeout of its own.
constexpr std::chrono::seconds kPausePatience{6};

}  // namespace

Result<void> Manager::Impl::pause() {
  std::unique_lock lock(pause_mutex);
  if (pausing.exchange(true, std::memory_order_acq_rel)) return {};
  wake.signal();
  if (turns == Turns::own_thread && !pause_changed.wait_for(lock, kPausePatience, [this] { return parked; })) {
    pausing.store(false, std::memory_order_release);
    return fail(ETIMEDOUT, "the connection manager still waits for an engine; try again");
  }
  lock.unlock();
  const Guard guard(*this);
  for (const auto& agent : agents) agent->gsi->hold(true);
  return {};
}

void Manager::Impl::park() {
  std::unique_lock lock(pause_mutex);
  const auto is_over = [this] {
    return !pausing.load(std::memory_order_relaxed) || stopping.load(std::memory_order_relaxed);
  };
  parked = true;
  pause_changed.notify_all();
  pause_changed.wait(lock, is_over);
  parked = false;
}

void Manager::Impl::resume() {
  if (!pausing.load(std::memory_order_acquire)) return;
  {
    const Guard guard(*this);
    for (const auto& agent : agents) {
      if (adopted) end_connections_of_nobody(*agent);
      agent->gsi->hold(false);
    }
    if (std::exchange(adopted, false)) {
      for (User* const user : users) user->pay_what_is_owed();
    }
    planned.store(Nanos(0), std::memory_order_relaxed);
  }
  const std::scoped_lock lock(pause_mutex);
  pausing.store(false, std::memory_order_release);
  pause_changed.notify_all();
}

// They are of programs that the other daemon could not hand over.
void Manager::Impl::end_connections_of_nobody(CmAgent& agent) {
  for (const ConnectionSnapshot& one : agent.cm.snapshot(now)) {
    if (one.c.owned && !agent.connections.contains(one.c.id)) carry_out(agent, agent.cm.destroy(one.c.id, now));
  }
}

}  // namespace uroce::cm
