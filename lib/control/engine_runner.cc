#include "control/engine_runner.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <sched.h>

#include <fmt/format.h>

#include "base/dead_owner.h"

namespace uroce::control {
namespace {

constexpr std::chrono::microseconds kSpin{20};

}  // namespace

std::unique_lock<std::mutex> EngineRunner::lock(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    if (stopped()) {
      lock.lock();
    } else {
      host_.wait_step();
      (void)lock.try_lock();
    }
  }
  return lock;
}

bool EngineRunner::run_in_place(uint32_t engine, const Work& work) {
  transport::Engine& idle = *engines_[engine];
  bool wake = false;
  const bool ran = host_.run_in_place(engine, [&](Nanos now) {
    const Nanos before = idle.next_deadline();
    idle.run(work, now);
    wake = idle.has_work() || idle.next_deadline() < before;
  });
  if (wake) host_.wake(engine);
  return ran;
}

Result<void> EngineRunner::run(uint32_t engine, Work work) {
  if (stopped() || paused_.load(std::memory_order_relaxed)) {
    work(*engines_[engine]);
    return {};
  }
  if (run_in_place(engine, work)) return {};
  waiting_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  auto ran = wait_for(engine, std::make_shared<transport::Task>(std::move(work)));
  waiting_.store({}, std::memory_order_relaxed);
  return ran;
}

Result<void> EngineRunner::wait_for(uint32_t engine, const std::shared_ptr<transport::Task>& task) {
  const auto deadline = Clock::now() + timeout_;
  while (!engines_[engine]->submit(task)) {
    if (Clock::now() > deadline) return std::unexpected(timed_out(engine));
    host_.wake(engine);
    host_.wait_step();
  }
  host_.wake(engine);
  // A polling engine replies within microseconds. Sleeping for each of ten thousand queue pairs would cost more. Where
  // the engine's thread waits for this very core, it gets it.
  const bool spin = !host_.runs_engines_here();
  const auto spin_end = Clock::now() + kSpin;
  while (spin && !task->done() && Clock::now() < spin_end) sched_yield();
  while (!task->done()) {
    // A task that has begun refers to the caller's data, so this waits for its end without a limit.
    if (Clock::now() > deadline && task->cancel()) return std::unexpected(timed_out(engine));
    host_.wake(engine);
    host_.wait_step();
  }
  return {};
}

Result<void> EngineRunner::pause() {
  const auto held = lock();
  for (uint32_t engine = 0; engine < count(); ++engine) {
    auto ran = run(engine, [](transport::Engine& e) { e.pause(); });
    if (ran) continue;
    while (engine > 0) (void)run(--engine, [](transport::Engine& e) { e.resume(); });
    return ran;
  }
  paused_.store(true, std::memory_order_relaxed);
  return {};
}

Result<void> EngineRunner::resume() {
  const auto held = lock();
  paused_.store(false, std::memory_order_relaxed);
  Result<void> all;
  for (uint32_t engine = 0; engine < count(); ++engine) {
    if (auto ran = run(engine, [](transport::Engine& e) { e.resume(); }); !ran) all = ran;
  }
  return all;
}

Result<void> EngineRunner::mark_steps() {
  const auto held = lock();
  for (uint32_t engine = 0; engine < count(); ++engine) {
    if (auto ran = run(engine, [](transport::Engine& e) { e.mark_steps(); }); !ran) return ran;
  }
  return {};
}

std::size_t EngineRunner::outlive_threads() {
  free_of_dead_owner(mutex_);
  paused_.store(true, std::memory_order_relaxed);
  std::size_t unknown = 0;
  for (const auto& engine : engines_) unknown += engine->outlive_thread() ? 1 : 0;
  return unknown;
}

Result<void> EngineRunner::visit(uint32_t engine, const Work& work) {
  const auto turn = lock(visit_mutex_);
  {
    const auto held = lock();
    if (auto ran = run(engine, work); !ran) return ran;
  }
  if (!stopped()) host_.wait_step();
  return {};
}

bool EngineRunner::try_post(const Work& work, const std::function<void()>& with_lock) {
  const std::unique_lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock()) return false;
  if (stopped()) return true;
  with_lock();
  for (uint32_t engine = 0; engine < count(); ++engine) {
    if (!engines_[engine]->submit(std::make_shared<transport::Task>(work))) return false;
    host_.wake(engine);
  }
  return true;
}

Result<void> EngineRunner::quiesce() {
  const auto deadline = Clock::now() + timeout_;
  for (uint32_t engine = 0; engine < count(); ++engine) {
    bool referenced = true;
    std::optional<uint64_t> mark;
    while (!stopped() && !paused_.load(std::memory_order_relaxed)) {
      const auto look = [&](transport::Engine& e) {
        if (!mark) mark = e.mark_sink_payload();
        referenced = e.sink_references_payload_before(*mark);
      };
      {
        const auto held = lock();
        if (auto ran = run(engine, look); !ran) return ran;
      }
      if (!referenced) break;
      host_.wake(engine);  // its sink releases payload when the engine polls
      if (Clock::now() > deadline) {
        return fail(ETIMEDOUT,
                    fmt::format("engine {} of {} still has unsent payload after {:.1f} s; check that its port "
                                "sends",
                                engine, device_, std::chrono::duration<double>(timeout_).count()));
      }
      host_.wait_step();
    }
  }
  return {};
}

bool EngineRunner::all_answer() {
  const std::unique_lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock() || stopped()) return false;
  while (questions_.size() < count()) {
    auto question = std::make_shared<transport::Task>([](transport::Engine&) {});
    if (!engines_[questions_.size()]->submit(question)) return false;
    questions_.push_back(std::move(question));
  }
  if (!std::ranges::all_of(questions_, &transport::Task::done)) {
    for (uint32_t engine = 0; engine < count(); ++engine) host_.wake(engine);
    return false;
  }
  questions_.clear();
  return true;
}

void EngineRunner::stop() {
  const auto held = lock();
  stopped_.store(true, std::memory_order_release);
}

Error EngineRunner::timed_out(uint32_t engine) const {
  return {ETIMEDOUT,
          fmt::format("engine {} of {} did not answer within {:.1f} s; check that the lcore that polls it runs", engine,
                      device_, std::chrono::duration<double>(timeout_).count())};
}

}  // namespace uroce::control
