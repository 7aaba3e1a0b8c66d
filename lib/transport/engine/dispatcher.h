// The one place that acts on outcomes (qp/outcome.h): it puts queue pairs on the run queue, sets their timers, and
// moves them to an error state.
#pragma once

#include <vector>

#include "transport/core/context.h"
#include "transport/engine/fair_queue.h"
#include "transport/engine/qp_timers.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

class Dispatcher {
 public:
  explicit Dispatcher(Context& ctx) : ctx_(ctx) { sent_.reserve(ctx.config.burst + 1); }

  void apply(Qp& qp, Outcome found) {
    if (found.nothing()) return;
    if (found.only_wakes()) return run_queue_.push(qp);
    if (found.failed()) [[unlikely]]
      return fail(qp, found);
    act(qp, found);
  }
  /// Afterwards no list and no timer refers to the QP.
  void forget(Qp& qp) {
    run_queue_.remove(qp);
    flush_queue_.remove(qp);
    timers_.forget(qp);
  }

  RunQueue& run_queue() { return run_queue_; }
  const RunQueue& run_queue() const { return run_queue_; }
  FlushQueue& flush_queue() { return flush_queue_; }
  const FlushQueue& flush_queue() const { return flush_queue_; }
  QpTimers& timers() { return timers_; }
  const QpTimers& timers() const { return timers_; }
  /// QPs whose requests complete once the burst being built has been taken (Outcome::kCompleteWhenSent).
  std::vector<Qp*>& sent() { return sent_; }

 private:
  void act(Qp& qp, Outcome found);
  void fail(Qp& qp, Outcome found);

  Context& ctx_;
  RunQueue run_queue_;
  FlushQueue flush_queue_;
  QpTimers timers_;
  std::vector<Qp*> sent_;
};

inline void Dispatcher::act(Qp& qp, Outcome found) {
  if (found.has(Outcome::kWake)) run_queue_.push(qp);
  if (found.has(Outcome::kFlush)) [[unlikely]]
    flush_queue_.push(qp);
  if (found.has(Outcome::kHelloTimer)) timers_.set_hello_timer(qp);
  if (found.has(Outcome::kAckTimer)) timers_.set_ack_timer(qp);
  if (found.has(Outcome::kPacingTimer) && timers_.set_pacing_timer(qp)) ctx_.counters.paced_waits.add();
  if (found.has(Outcome::kStopTimers)) timers_.stop(qp);
  if (found.has(Outcome::kCompleteWhenSent) && (sent_.empty() || sent_.back() != &qp)) sent_.push_back(&qp);
}

}  // namespace uroce::transport
