// The loop of one lcore: it runs its engine of every port, round after round.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <uroce/stack.h>

#include "base/counter.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/port_queue.h"
#include "pmd_glue/waker.h"

namespace uroce::glue {

/// A worker's work so far. One thread at a time writes; any thread reads.
struct WorkerLoad {
  Counter rounds;   ///< a sleeping worker makes two a second at least
  Counter busy_ns;  ///< from the beginning of each round that had work to the beginning of the next
  // As they were after the last round.
  std::atomic<uint64_t> waiting_qps{0};    ///< that may have something to send
  std::atomic<uint64_t> parked_frames{0};  ///< in reorder buffers
};

class alignas(64) Worker {
 public:
  Worker(IdlePolicy policy, const TscClock& clock) : policy_(policy), clock_(clock) {}

  /// Call it before the first round.
  void add(std::unique_ptr<PortQueue> queue);
  Waker& waker() { return waker_; }
  const std::vector<std::unique_ptr<PortQueue>>& queues() const { return queues_; }

  /// The calling thread is about to make rounds: its naps end in time.
  void prepare_thread();
  /// Rounds until stop(). The worker's lcore.
  void run();
  /// Any thread.
  void stop();
  /// Between run() and another run().
  void begin_again() { stop_.store(false, std::memory_order_relaxed); }
  /// After the last round, on any thread: sends the ACKs that are due.
  void finish();
  /// The same, with engines that are paused: see PortQueue::receive_rest().
  bool receive_rest();
  /// Whether frames wait for room on a port.
  bool blocked() const;
  /// One round: true when there was work.
  bool round();
  /// Any thread.
  const WorkerLoad& load() const { return load_; }
  /// Any thread: calls `work` with the time in place of the worker's thread, if that sleeps or yields. False, with
  /// nothing done, if it is busy.
  bool run_in_place(const std::function<void(Nanos)>& work);
  /// Any thread: ends a sleep, or does the pending work in the sleeper's place.
  void wake() {
    if (!self_contained_ || !serve_in_place()) waker_.wake();
  }
  /// Before the first round: only the worker's own rounds bring frames to its port queues. True between devices that
  /// are joined back to back.
  void set_self_contained() { self_contained_ = true; }
  /// When the last round began; 0 before the first. Any thread.
  Nanos last_round() const { return last_round_.load(std::memory_order_relaxed); }
  /// When the next round is due at the latest. Any thread.
  Nanos next_round() const { return std::max(last_round(), next_round_.load(std::memory_order_relaxed)); }
  /// After a round without work: gives the core away as the policy says, for at most `limit`.
  void idle(Nanos limit);

 private:
  void sleep(Nanos limit);
  /// The length of the next nap after `idle` without work.
  Nanos nap(Nanos idle) const;
  /// Waits, and lets other threads work in its place meanwhile.
  template <class Wait>
  void stand_by(Wait wait);
  bool serve_in_place();
  bool has_work() const;
  /// Is called after each round.
  void account(bool worked);
  /// Before a pause: ends the busy time of the last round.
  void end_busy_time();
  /// The earliest deadline of all port queues; kNever for none.
  Nanos next_deadline() const;
  Nanos time_to_deadline() const;

  const IdlePolicy policy_;
  const TscClock& clock_;
  std::vector<std::unique_ptr<PortQueue>> queues_;
  std::atomic<bool> stop_{false};
  bool self_contained_ = false;
  bool all_wake_ = true;     ///< a frame for any of queues_ ends a nap
  std::mutex place_mutex_;   ///< held by the thread that works in the worker's place
  bool place_free_ = false;  ///< guarded by it: the worker's thread sleeps or yields
  Waker waker_;
  WorkerLoad load_;
  bool worked_ = false;  ///< in the last round, which began at last_round_
  std::atomic<Nanos> last_round_{Nanos(0)};
  std::atomic<Nanos> next_round_{Nanos(0)};  ///< of the newest nap
  uint32_t empty_rounds_ = 0;
  Nanos crowded_until_{0};  ///< until then, yielding gives the core away for too long
  bool idle_ = false;       ///< since idle_since_
  Nanos idle_since_{0};
};

}  // namespace uroce::glue
