// The timers of an engine's queue pairs: ACK timeouts and probes, HELLOs, pacing.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

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

  /// `find` gives the QP of a number, or nullptr.
  template <class Archive, class Find>
  void persist(Archive& archive, Find&& find) {
    archive("now", now_, Nanos(0), kNever);
    persist_wheel(archive, wheel_, find,
                  [](const TimerNode& node) { return node.kind == QpCold::kHelloKind ? Timer::hello : Timer::ack; });
    persist_wheel(archive, pacing_wheel_, find, [](const TimerNode&) { return Timer::pacing; });
    if constexpr (Archive::kReads) quiet_until_ = std::min(wheel_.quiet_until(), pacing_wheel_.quiet_until());
  }

 private:
  enum class Timer : uint8_t { ack, hello, pacing };
  static TimerNode& timer_of(Qp& qp, Timer timer) {
    QpCold& cold = *qp.cold;
    return timer == Timer::ack ? cold.ack_timer : timer == Timer::hello ? cold.hello_timer : cold.pacing_timer;
  }
  template <class Archive, class Wheel, class Find, class Which>
  void persist_wheel(Archive& archive, Wheel& wheel, Find&& find, Which&& which) {
    // As far as the next arm() would.
    wheel.catch_up(now_);
    auto clock = wheel.clock();
    // So that all ticks that the wheel computes are times.
    constexpr auto kMostTick = static_cast<uint64_t>(INT64_MAX / Wheel::kTickNanos / 2);
    archive("now", clock.now, 0, kMostTick);
    archive("busy_from", clock.busy_from, clock.now + 1, UINT64_MAX);
    if constexpr (Archive::kReads) {
      if (clock.busy_from > kMostTick && clock.busy_from != UINT64_MAX) {
        return archive.refuse("busy_from is " + std::to_string(clock.busy_from) + ", which is no time");
      }
    }
    uint32_t count = 0;
    wheel.for_each([&](const TimerNode&) { ++count; });
    archive("timers", count);
    if constexpr (Archive::kReads) {
      wheel.restore(clock);
      for (; count != 0 && archive.good(); --count) {
        uint32_t qpn = 0;
        Timer timer{};
        TimerNode read;
        persist_timer(archive, qpn, timer, read, clock.now + 1);
        Qp* const qp = archive.good() ? find(qpn) : nullptr;
        TimerNode* const node = qp != nullptr ? &timer_of(*qp, timer) : nullptr;
        if (node == nullptr || node->armed() || (timer == Timer::pacing) != std::is_same_v<Wheel, PacingWheel>) {
          return archive.refuse("has a timer of QP " + std::to_string(qpn) + ", which is none or has it");
        }
        node->tick = read.tick;
        node->place = read.place;
        wheel.restore(*node);
      }
    } else {
      wheel.for_each([&](const TimerNode& node) {
        Timer timer = which(node);
        const Qp* const qp =
            timer == Timer::ack ? static_cast<const QpCold*>(node.owner)->qp : static_cast<Qp*>(node.owner);
        uint32_t qpn = qp->qpn;
        TimerNode written = node;
        persist_timer(archive, qpn, timer, written, 0);
      });
    }
  }
  template <class Archive>
  static void persist_timer(Archive& archive, uint32_t& qpn, Timer& timer, TimerNode& node, uint64_t least) {
    archive("qpn", qpn);
    archive("timer", timer, Timer::ack, Timer::pacing);
    archive("tick", node.tick, least, UINT64_MAX);
    archive("place", node.place, 0, TimerWheel::kPlaces - 1);
  }

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
