// Runs control work on engines: one lock for all control calls, and tasks that an engine runs between its bursts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <uroce/error.h>

#include "control/device_host.h"
#include "transport/engine/engine.h"

namespace uroce::control {

class EngineRunner {
 public:
  using Work = std::function<void(transport::Engine&)>;

  /// `host` outlives this or stop(). `timeout`: for an engine's reply.
  EngineRunner(DeviceHost& host, std::string device, std::chrono::nanoseconds timeout)
      : host_(host), device_(std::move(device)), timeout_(timeout) {}

  void add(std::unique_ptr<transport::Engine> engine) { engines_.push_back(std::move(engine)); }
  uint32_t count() const { return static_cast<uint32_t>(engines_.size()); }
  transport::Engine& engine(uint32_t index) const { return *engines_[index]; }

  /// The control lock. Waits by DeviceHost::wait_step(), so that a thread which runs the engines polls them while
  /// another thread holds the lock and needs them.
  std::unique_lock<std::mutex> lock() { return lock(mutex_); }
  /// The same for a lock of the caller's, under which control calls are made.
  std::unique_lock<std::mutex> lock(std::mutex& mutex);

  /// Runs `work` between two of the engine's bursts, on its thread or in its place, and returns when it has run. The
  /// caller holds the lock.
  /// Errors: ETIMEDOUT naming the engine; `work` has then not run and never will.
  Result<void> run(uint32_t engine, Work work);
  /// Whether this thread is inside a run() that waits, whose caller has the lock. Any thread; cheap.
  bool waits_here() const { return waiting_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  /// As run(), for a list of what is there. The caller does not hold the lock. There is one visit at a time, and a step
  /// of waiting after each: engines serve between two of them, however many callers list. Errors: as run().
  Result<void> visit(uint32_t engine, const Work& work);

  /// Queues `work`, which owns what it needs, for every engine, without waiting. False where that would need waiting:
  /// the work then runs on some engines only. Before, `with_lock` runs under the control lock, which the caller does
  /// not hold.
  bool try_post(const Work& work, const std::function<void()>& with_lock);

  /// Returns once every engine was between two bursts and its sink released the payload sent before: no engine uses an
  /// entry that was removed from a shared table before the call. The caller does not hold the lock, so that a busy port
  /// does not block other calls. Errors: ETIMEDOUT naming the engine.
  Result<void> quiesce();

  /// Asks each engine for a sign of life, without waiting: true in a later call, once all have answered. One thread at
  /// a time, which does not hold the lock.
  bool all_answer();

  /// Pauses all engines (Engine::pause): until resume(), run() uses the calling thread, and quiesce() does not wait.
  /// The caller does not hold the lock. Errors: as run(); no engine is paused then.
  Result<void> pause();
  /// Errors: as run(). An engine that does not answer goes on when it does.
  Result<void> resume();
  /// From now on the engines may be outlived (Engine::mark_steps). The caller does not hold the lock. Errors: as run().
  Result<void> mark_steps();
  /// All threads but the calling one have died (Engine::outlive_thread). The engines are paused from now on, and the
  /// control lock is free, whoever had it. Returns the queue pairs whose state is unknown.
  std::size_t outlive_threads();

  /// The engines are not polled any more, and the host is about to go. From now on run() uses the calling thread.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  /// Any thread; cheap.
  void wake(uint32_t engine) {
    if (!stopped()) host_.wake(engine);
  }
  DeviceHost& host() const { return host_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// Returns once `engine` has run the task. Errors: as run().
  Result<void> wait_for(uint32_t engine, const std::shared_ptr<transport::Task>& task);
  /// False where the engine's thread runs.
  bool run_in_place(uint32_t engine, const Work& work);
  Error timed_out(uint32_t engine) const;

  DeviceHost& host_;
  std::string device_;
  std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::mutex visit_mutex_;  // before mutex_
  std::atomic<bool> stopped_{false};
  std::atomic<bool> paused_{false};       ///< changes under the lock
  std::atomic<std::thread::id> waiting_;  // the thread inside run() that waits
  std::vector<std::unique_ptr<transport::Engine>> engines_;
  std::vector<transport::TaskPtr> questions_;  // of all_answer(), by engine; empty: none was asked
};

}  // namespace uroce::control
