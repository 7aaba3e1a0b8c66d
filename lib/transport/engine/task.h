// A piece of control work that runs on an engine's thread, between bursts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace uroce::transport {

class Engine;

/// The control thread and the engine share it. The control thread may stop waiting before the engine runs it.
class Task {
 public:
  enum class State : uint32_t { queued, running, done, cancelled };

  explicit Task(std::function<void(Engine&)> work) : work_(std::move(work)) {}

  /// Engine's thread. Runs the work unless it was cancelled.
  void run(Engine& engine) {
    State expected = State::queued;
    if (!state_.compare_exchange_strong(expected, State::running, std::memory_order_acq_rel)) return;
    work_(engine);
    state_.store(State::done, std::memory_order_release);
  }
  /// Control thread. True: the work will never run. False: it runs or has run; wait for done().
  bool cancel() {
    State expected = State::queued;
    return state_.compare_exchange_strong(expected, State::cancelled, std::memory_order_acq_rel);
  }
  bool done() const { return state_.load(std::memory_order_acquire) == State::done; }

 private:
  std::function<void(Engine&)> work_;
  std::atomic<State> state_{State::queued};
};
using TaskPtr = std::shared_ptr<Task>;

}  // namespace uroce::transport
