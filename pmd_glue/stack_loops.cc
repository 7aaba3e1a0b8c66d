// The engines of an embedded stack: who polls them, and the loops that the program gives them.
#include <fmt/format.h>
#include <rte_launch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pmd_glue/stack_impl.h"

namespace uroce {

using namespace glue;

namespace {

/// The loop that the calling thread is in.
struct Here {
  const void* stack = nullptr;
  uint32_t engine = 0;
};
thread_local Here here;

/// The queue pair of connections' messages may be another lcore's, which does not wake this thread, and neither does
/// a frame for an engine that has no loop.
constexpr Nanos kSharedNap = std::chrono::milliseconds(1);

}  // namespace

void Stack::Impl::make_loops() {
  loops_ = std::make_unique<Loop[]>(engines());
  for (uint32_t engine = 0; engine < engines(); ++engine) {
    loops_[engine].stack = this;
    loops_[engine].engine = engine;
    if (engine > 0) loops_[engine].lcore = eal_->workers()[engine - 1];
  }
}

uint32_t Stack::Impl::engine_here() const { return here.stack == this ? here.engine : 0; }

bool Stack::Impl::runs_engines_here() const {
  return embedded && (here.stack == this || std::this_thread::get_id() == owner_);
}

bool Stack::Impl::poll_engine(uint32_t engine) {
  Loop& loop = loops_[engine];
  if (loop.polling) return false;  // an engine's work called it
  loop.polling = true;
  const bool worked = workers_[engine]->round();
  loop.polling = false;
  return worked;
}

bool Stack::Impl::poll_here() {
  if (const uint32_t engine = engine_here(); engine != 0) return poll_engine(engine);
  bool worked = poll_engine(0);
  for (uint32_t engine = 1; engine < engines(); ++engine) {
    if (!has_loop(engine)) worked = poll_engine(engine) || worked;
  }
  cm::Manager* const connections = made_connections_.load(std::memory_order_acquire);
  return (connections != nullptr && connections->turn(cm::steady_now())) || worked;
}

void Stack::Impl::idle_here(std::chrono::nanoseconds limit) {
  const uint32_t engine = engine_here();
  if (engine != 0) return workers_[engine]->idle(limit);
  if (const cm::Manager* const connections = made_connections_.load(std::memory_order_acquire)) {
    limit = std::min(limit, connections->deadline() - cm::steady_now());
  }
  if (engines() > 1) limit = std::min<std::chrono::nanoseconds>(limit, kSharedNap);
  workers_[0]->idle(limit);
}

int Stack::Impl::loop_main(void* argument) {
  Loop& loop = *static_cast<Loop*>(argument);
  here = {loop.stack, loop.engine};
  loop.stack->workers_[loop.engine]->prepare_thread();
  loop.body();
  here = {};
  loop.running.store(false, std::memory_order_release);
  return 0;
}

Result<void> Stack::Impl::start_loop(uint32_t engine, std::function<void()> body) {
  if (!embedded || engine == 0 || engine >= engines()) {
    return fail(EINVAL,
                fmt::format("engine {} cannot have a loop; with StackOptions::own_loops engines 1 to {} can, one "
                            "for each worker lcore (-l)",
                            engine, embedded ? engines() - 1 : 0));
  }
  Loop& loop = loops_[engine];
  if (has_loop(engine)) {
    return fail(EBUSY, fmt::format("engine {} has a loop, which has not returned; call join_loops() first", engine));
  }
  rte_eal_wait_lcore(loop.lcore);  // it has returned, and its lcore is about to notice
  loop.body = std::move(body);
  loop.running.store(true, std::memory_order_release);
  if (const int error = rte_eal_remote_launch(loop_main, &loop, loop.lcore); error != 0) {
    loop.running.store(false, std::memory_order_release);
    return fail(-error, fmt::format("cannot start the loop of engine {} on lcore {}: {}; {}", engine, loop.lcore,
                                    std::strerror(-error),
                                    error == -EBUSY ? "the lcore runs another function (rte_eal_remote_launch), which "
                                                      "must return first"
                                                    : "EAL cannot reach the lcore's thread; start the program again"));
  }
  return {};
}

void Stack::Impl::wake(uint32_t engine) {
  if (!embedded || engine >= engines()) return;
  workers_[has_loop(engine) ? engine : 0]->waker().rouse();
}

void Stack::Impl::join_loops() {
  if (!embedded) return;
  for (uint32_t engine = 1; engine < engines(); ++engine) {
    while (has_loop(engine)) {
      if (!poll_here()) idle_here(kSharedNap);
    }
    rte_eal_wait_lcore(loops_[engine].lcore);
    loops_[engine].body = nullptr;
  }
}

}  // namespace uroce
