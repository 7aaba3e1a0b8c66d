#include "pmd_glue/worker.h"

#include <rte_pause.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/engine_round.h"
#include "pmd_glue/wake_priority.h"

namespace uroce::glue {

namespace {

using std::chrono::microseconds;

/// Rounds before the core is given away, each some tens of nanoseconds. A peer that polls on its own core answers
/// meanwhile.
constexpr uint32_t kSpinRounds = 64;
/// Enough for a packet there and back. The thread in the worker's place has its own work to do.
constexpr uint32_t kRoundsInPlace = 4;
/// For this long the core is offered to others after each round. A peer on the same core answers in its turn.
constexpr Nanos kYieldTime = microseconds(200);
/// A program that computes for a moment makes one yield late by less. One that polls keeps the core for whole time
/// slices.
constexpr Nanos kCrowded = microseconds(500);
/// The core counts as crowded for so many times as long as the yield was late, so late yields cost a small share of the
/// time.
constexpr int kCrowdedTimes = 16;
constexpr Nanos kCrowdedAtMost = microseconds(200'000);
/// Without an RX interrupt, a nap is the longest delay of a frame. So a nap lasts an eighth of the time without work,
/// within bounds: a frame after a pause is late by an eighth of the pause at most.
constexpr int kNapShare = 8;
constexpr Nanos kShortNap = microseconds(50);
/// While a request waits for its answer.
constexpr Nanos kExpectantNap = microseconds(250);
/// An idle stack costs about 1 % of a core.
constexpr Nanos kDeepNap = microseconds(4000);

/// Safe in a signal handler once it has been called.
Nanos read_clock() {
  static const TscClock kClock;
  return kClock.now();
}

}  // namespace

void Worker::add(std::unique_ptr<PortQueue> queue) {
  if (queue->waits_by_interrupt()) {
    const int fd = queue->port().interrupt_descriptor(queue->queue_id());
    if (fd >= 0) waker_.watch(fd);
  }
  all_wake_ = all_wake_ && queue->frames_wake();
  queues_.push_back(std::move(queue));
}

void Worker::prepare_thread() {
  prctl(PR_SET_TIMERSLACK, 1);  // the default of 50 us would double the short naps
  // A program that polls its queues on this CPU would keep an engine that naps away for milliseconds.
  if (policy_ == IdlePolicy::sleep) prefer_when_woken();
}

void Worker::run() {
  (void)read_clock();
  engine_clock.store(read_clock, std::memory_order_relaxed);
  prepare_thread();
  while (!stop_.load(std::memory_order_relaxed)) {
    if (!round()) idle(kLongestNap);
  }
}

template <class Wait>
void Worker::stand_by(Wait wait) {
  const auto set = [this](bool free) {
    const std::scoped_lock lock(place_mutex_);
    place_free_ = free;
  };
  set(true);
  wait();
  set(false);
}

bool Worker::run_in_place(const std::function<void(Nanos)>& work) {
  const std::unique_lock lock(place_mutex_, std::try_to_lock);
  // Pending work goes first, for example an ACK of a queue pair that `work` destroys.
  if (!lock.owns_lock() || !place_free_ || has_work()) return false;
  work(clock_.now());
  return true;
}

bool Worker::has_work() const {
  return std::ranges::any_of(queues_, [](const auto& queue) { return queue->engine().has_work() || queue->blocked(); });
}

bool Worker::serve_in_place() {
  const std::unique_lock lock(place_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !place_free_) return false;
  const Nanos planned = next_deadline();
  const uint32_t empty_rounds = empty_rounds_;
  const bool idle = idle_;
  for (uint32_t i = 0; i < kRoundsInPlace && round(); ++i) {
  }
  end_engine_round();
  end_busy_time();
  // The sleeping thread goes on as if these rounds had not been.
  empty_rounds_ = empty_rounds;
  idle_ = idle;
  if (has_work() || next_deadline() < planned) waker_.wake();
  return true;
}

void Worker::stop() {
  stop_.store(true, std::memory_order_relaxed);
  waker_.wake_always();
}

void Worker::finish() {
  for (const auto& queue : queues_) queue->finish(clock_.now());
}

bool Worker::receive_rest() {
  bool any = false;
  for (const auto& queue : queues_) any = queue->receive_rest(clock_.now()) || any;
  return any;
}

bool Worker::blocked() const {
  return std::ranges::any_of(queues_, [](const auto& queue) { return queue->blocked(); });
}

bool Worker::round() {
  bool worked = false;
  for (const auto& queue : queues_) worked = queue->round(clock_) || worked;
  if (worked) {
    empty_rounds_ = 0;
    idle_ = false;
  }
  account(worked);
  return worked;
}

// The first port queue has read the clock already.
void Worker::account(bool worked) {
  load_.rounds.add();
  const Nanos began = queues_.empty() ? Nanos(0) : queues_.front()->last_round();
  if (worked_) load_.busy_ns.add(static_cast<uint64_t>((began - last_round()).count()));
  last_round_.store(began, std::memory_order_relaxed);
  if (worked || worked_) {
    uint64_t waiting = 0, parked = 0;
    for (const auto& queue : queues_) {
      waiting += queue->engine().waiting_qps();
      parked += queue->engine().parked_frames();
    }
    load_.waiting_qps.store(waiting, std::memory_order_relaxed);
    load_.parked_frames.store(parked, std::memory_order_relaxed);
  }
  worked_ = worked;
}

void Worker::end_busy_time() {
  if (worked_) load_.busy_ns.add(static_cast<uint64_t>((clock_.now() - last_round()).count()));
  worked_ = false;
}

void Worker::idle(Nanos limit) {
  // A pause is as long as the whole round, and a frame may arrive in it. The core is the engine's own.
  if (policy_ == IdlePolicy::busy) return;
  if (limit <= Nanos(0)) return rte_pause();
  // On an overcommitted core, spinning starves other threads.
  const uint32_t spin_rounds = policy_ == IdlePolicy::sleep && clock_.now() < crowded_until_ ? 1 : kSpinRounds;
  if (empty_rounds_++ < spin_rounds) return rte_pause();
  if (policy_ == IdlePolicy::yield) return stand_by([] { sched_yield(); });
  const Nanos now = clock_.now();
  if (!std::exchange(idle_, true)) idle_since_ = now;
  if (now - idle_since_ < kYieldTime && now >= crowded_until_) {
    stand_by([] { sched_yield(); });
    // sched_yield() came back late: another thread polls on this core and uses whole time slices, milliseconds long. A
    // thread that is woken from sleep gets the core at once. So sleep from now on instead of yielding.
    const Nanos back = clock_.now();
    if (back - now > kCrowded) crowded_until_ = back + std::min(kCrowdedTimes * (back - now), kCrowdedAtMost);
    return;
  }
  sleep(std::min(limit, nap(now - idle_since_)));
}

// Engines without a timer wait for nothing. Room on a port wakes nobody.
Nanos Worker::nap(Nanos idle) const {
  const bool woken = (all_wake_ || self_contained_) && !blocked();
  const Nanos longest = woken ? kLongestNap : next_deadline() == kNever ? kDeepNap : kExpectantNap;
  return std::clamp(idle / kNapShare, kShortNap, longest);
}

void Worker::sleep(Nanos limit) {
  waker_.prepare();
  for (const auto& queue : queues_) {
    queue->engine().set_sleeping(true);
    if (queue->waits_by_interrupt()) queue->port().arm_interrupt(queue->queue_id(), true);
  }
  // Poll once more after announcing: frames that arrived before it would not wake us.
  const uint32_t empty_rounds = empty_rounds_;
  bool worked = round();
  if (!worked && !waker_.roused() && !stop_.load(std::memory_order_relaxed)) {
    limit = std::min(limit, time_to_deadline());
    next_round_.store(last_round() + limit, std::memory_order_relaxed);
    stand_by([&] { waker_.sleep(limit); });
    empty_rounds_ = empty_rounds;
  }
  waker_.cancel();
  for (const auto& queue : queues_) {
    queue->engine().set_sleeping(false);
    if (queue->waits_by_interrupt()) queue->port().arm_interrupt(queue->queue_id(), false);
  }
}

Nanos Worker::next_deadline() const {
  Nanos next = kNever;
  for (const auto& queue : queues_) {
    // An engine that waits for room on its port reports a deadline in the past.
    const Nanos deadline = queue->next_deadline();
    if (deadline != kNever)
      next = std::min(next, queue->blocked() ? std::max(deadline, clock_.now() + kShortNap) : deadline);
  }
  return next;
}

Nanos Worker::time_to_deadline() const {
  const Nanos next = next_deadline();
  return next == kNever ? kNever : std::max(next - clock_.now(), Nanos(0));
}

}  // namespace uroce::glue
