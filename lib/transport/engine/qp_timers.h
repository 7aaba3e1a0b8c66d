// The timers of an engine's queue pairs: ACK timeouts and probes, HELLOs, pacing.
#pragma once

#include <algorithm>

#include "base/timer_wheel.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

class QpTimers {
 public:
  /// QpCold::wheel_deadline was set.
  void set_ack_timer(Qp& qp) { arm(wheel_, qp.cold->ack_timer, qp.cold->wheel_deadline); }
  /// PeerDiscovery::next_hello() was set.
  void set_hello_timer(Qp& qp) {
    TimerNode& timer = qp.cold->hello_timer;
    const Nanos deadline = qp.tx.recovery->discovery.next_hello();
    if (deadline == kNever) return wheel_.cancel(timer);
    if (!timer.armed()) arm(wheel_, timer, deadline);
  }
  /// The QP waits until it may send a paced packet. False: it waited already.
  bool set_pacing_timer(Qp& qp) {
    if (qp.cold->pacing_timer.armed()) return false;
    arm(pacing_wheel_, qp.cold->pacing_timer, qp.cold->pacer.next_send());
    return true;
  }
  /// The QP waited for its turn on another engine.
  void resume_turn(Qp& qp, Nanos at) { arm(pacing_wheel_, qp.cold->pacing_timer, at); }
  /// Stops the HELLO timer and the pacing timer.
  void stop(Qp& qp) {
    wheel_.cancel(qp.cold->hello_timer);
    pacing_wheel_.cancel(qp.cold->pacing_timer);
  }
  /// Afterwards no timer refers to the QP.
  void forget(Qp& qp) {
    stop(qp);
    wheel_.cancel(qp.cold->ack_timer);
    qp.cold->timer_pending = false;
  }

  /// Each poll asks. False: advance() would find nothing.
  bool may_end(Nanos now) {
    now_ = now;
    return now >= quiet_until_;
  }
  /// Calls `on_ack_timer`, `on_hello_timer` or `on_turn` (pacing) with the QP of each timer that has ended.
  template <class OnAckTimer, class OnHelloTimer, class OnTurn>
  void advance(Nanos now, OnAckTimer&& on_ack_timer, OnHelloTimer&& on_hello_timer, OnTurn&& on_turn) {
    wheel_.advance(now, [&](TimerNode& node) {
      if (node.kind == QpCold::kHelloKind) return on_hello_timer(*static_cast<Qp*>(node.owner));
      QpCold& cold = *static_cast<QpCold*>(node.owner);
      cold.timer_pending = false;
      on_ack_timer(*cold.qp);
    });
    pacing_wheel_.advance(now, [&](TimerNode& node) { on_turn(*static_cast<Qp*>(node.owner)); });
    quiet_until_ = std::min(wheel_.quiet_until(), pacing_wheel_.quiet_until());
  }
  Nanos next_deadline() const { return std::min(wheel_.next_deadline(), pacing_wheel_.next_deadline()); }

 private:
  template <class Wheel>
  void arm(Wheel& wheel, TimerNode& timer, Nanos deadline) {
    wheel.catch_up(now_);
    wheel.arm(timer, deadline);
    quiet_until_ = std::min(quiet_until_, wheel.quiet_until());
  }

  TimerWheel wheel_;
  PacingWheel pacing_wheel_;
  Nanos now_{0};  // of the last poll
  Nanos quiet_until_ = kNever;
};

}  // namespace uroce::transport
