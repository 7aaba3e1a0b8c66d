// The timers of an engine's queue pairs: ACK timeouts and probes, HELLOs, pacing.
#pragma once

#include <algorithm>

#include "base/timer_wheel.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

class QpTimers {
 public:
  /// QpCold::wheel_deadline was set.
  void set_ack_timer(Qp& qp) { wheel_.arm(qp.cold->ack_timer, qp.cold->wheel_deadline); }
  /// PeerDiscovery::next_hello() was set.
  void set_hello_timer(Qp& qp) {
    TimerNode& timer = qp.cold->hello_timer;
    const Nanos deadline = qp.tx.recovery->discovery.next_hello();
    if (deadline == kNever) return wheel_.cancel(timer);
    if (!timer.armed()) wheel_.arm(timer, deadline);
  }
  /// The QP waits until it may send a paced packet. False: it waited already.
  bool set_pacing_timer(Qp& qp) {
    if (qp.cold->pacing_timer.armed()) return false;
    pacing_wheel_.arm(qp.cold->pacing_timer, qp.cold->pacer.next_send());
    return true;
  }
  /// The QP waited for its turn on another engine.
  void resume_turn(Qp& qp, Nanos at) { pacing_wheel_.arm(qp.cold->pacing_timer, at); }
  /// Stops the HELLO timer and the pacing timer.
  void stop(Qp& qp) {
    wheel_.cancel(qp.cold->hello_timer);
    pacing_wheel_.cancel(qp.cold->pacing_timer);
  }
  /// Afterwards no timer refers to the QP.
  void forget(Qp& qp) {
    stop(qp);
    wheel_.cancel(qp.cold->ack_timer);
    qp.timer_pending = false;
  }

  /// False: advance() would find nothing, because it was called within this tick. A timer that is set ends in a later
  /// one.
  bool may_end(Nanos now) const { return now >= next_tick_; }
  /// Calls `on_ack_timer`, `on_hello_timer` or `on_turn` (pacing) with the QP of each timer that has ended.
  template <class OnAckTimer, class OnHelloTimer, class OnTurn>
  void advance(Nanos now, OnAckTimer&& on_ack_timer, OnHelloTimer&& on_hello_timer, OnTurn&& on_turn) {
    static_assert(TimerWheel::kTickNanos % PacingWheel::kTickNanos == 0);
    next_tick_ = Nanos((now.count() / PacingWheel::kTickNanos + 1) * PacingWheel::kTickNanos);
    wheel_.advance(now, [&](TimerNode& node) {
      Qp& qp = *static_cast<Qp*>(node.owner);
      if (&node == &qp.cold->hello_timer) return on_hello_timer(qp);
      qp.timer_pending = false;
      on_ack_timer(qp);
    });
    pacing_wheel_.advance(now, [&](TimerNode& node) { on_turn(*static_cast<Qp*>(node.owner)); });
  }
  Nanos next_deadline() const { return std::min(wheel_.next_deadline(), pacing_wheel_.next_deadline()); }

 private:
  TimerWheel wheel_;
  PacingWheel pacing_wheel_;
  Nanos next_tick_{0};
};

}  // namespace uroce::transport
