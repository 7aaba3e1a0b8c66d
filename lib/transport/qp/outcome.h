// What a part of the transport found out about a queue pair.
//
// Parts of the transport decide; they change nothing outside the queue pair's own state. The engine's dispatcher
// (engine/dispatcher.h), and nothing else, acts on what they return: it puts queue pairs on the run queue, sets timers,
// and moves queue pairs to an error state.
#pragma once

#include <cstdint>

#include <uroce/types.h>

namespace uroce::transport {

/// Why a queue pair must stop, and what that entails.
enum class Failure : uint8_t {
  none,
  requester,   ///< `status` completes the oldest send work request; the rest is flushed
  responder,   ///< everything is flushed, but responses that are due still leave, and the NAK behind them
  plain,       ///< everything is flushed
  send_queue,  ///< UC and UD: as requester, but receiving goes on (SQE)
  cq_overrun,  ///< a completion did not fit (C11-39): everything is flushed, when the QP is served next
};

struct Outcome {
  enum Action : uint8_t {
    kWake = 1,               ///< the QP has something to send, or may have
    kAckTimer = 2,           ///< qp.tx.wheel_deadline was set
    kHelloTimer = 4,         ///< PeerDiscovery::next_hello() was set
    kPacingTimer = 8,        ///< the QP waits for Pacer::next_send()
    kStopTimers = 16,        ///< no HELLO and no paced packet is to follow
    kCompleteWhenSent = 32,  ///< requests complete once the sink has taken the burst (UC, UD)
    kReport = 64,            ///< `event` is to be reported
  };

  uint8_t actions = 0;
  Failure failure = Failure::none;
  WcStatus status = WcStatus::success;
  AsyncEventType event{};

  bool failed() const { return failure != Failure::none; }
  bool has(Action action) const { return (actions & action) != 0; }

  /// What both found. The first failure and the first report stand.
  Outcome& operator|=(Outcome other) {
    if (failure == Failure::none) {
      failure = other.failure;
      status = other.status;
    }
    if (!has(kReport)) event = other.event;
    actions |= other.actions;
    return *this;
  }
  /// Operands are evaluated in any order: at most one of them may have side effects.
  friend Outcome operator|(Outcome a, Outcome b) { return a |= b; }

  static Outcome wake() { return {.actions = kWake}; }
  static Outcome wake_if(bool condition) { return {.actions = condition ? uint8_t{kWake} : uint8_t{0}}; }
  static Outcome act(Action action) { return {.actions = action}; }
  static Outcome fail(Failure failure, WcStatus status = WcStatus::success) {
    return {.failure = failure, .status = status};
  }
  static Outcome fail(Failure failure, AsyncEventType event) {
    return {.actions = kReport, .failure = failure, .event = event};
  }
};
static_assert(sizeof(Outcome) == 4, "an Outcome is returned in a register");

/// What came of sending. `more`: the burst is full, and the QP could go on.
struct Transmitted {
  bool more = false;
  Outcome out;
};

}  // namespace uroce::transport
