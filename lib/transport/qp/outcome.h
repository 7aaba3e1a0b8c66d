// The result of handling a packet, a timer or a work request of a queue pair.
//
// The parts of the transport decide, and change nothing outside the queue pair's own state. They return an Outcome.
// Only the engine's dispatcher (engine/dispatcher.h) acts on it: it puts queue pairs on the run queue, sets timers, and
// moves queue pairs to an error state.
#pragma once

#include <cstdint>

#include <uroce/types.h>

namespace uroce::transport {

/// Why a queue pair must stop, and how.
enum class Failure : uint8_t {
  none,
  requester,   ///< `status` completes the oldest send work request; the rest is flushed
  responder,   ///< everything is flushed, but responses that are due still leave, and then the NAK
  plain,       ///< everything is flushed
  send_queue,  ///< UC and UD: as requester, but receiving goes on (SQE)
  cq_overrun,  ///< a completion did not fit (C11-39): everything is flushed
};

class Outcome {
 public:
  enum Action : uint8_t {
    kWake = 1,               ///< the QP may have something to send
    kAckTimer = 2,           ///< QpCold::wheel_deadline was set
    kHelloTimer = 4,         ///< PeerDiscovery::next_hello() was set
    kPacingTimer = 8,        ///< the QP waits for Pacer::next_send()
    kStopTimers = 16,        ///< stop the HELLO timer and the pacing timer
    kCompleteWhenSent = 32,  ///< requests complete once the sink has taken the burst (UC, UD)
    kReport = 64,            ///< event() is to be reported
    kFlush = 128,            ///< posted work requests must be flushed
  };

  constexpr Outcome() = default;
  static constexpr Outcome wake() { return Outcome(kWake); }
  static constexpr Outcome wake_if(bool condition) { return condition ? wake() : Outcome(); }
  static constexpr Outcome act(Action action) { return Outcome(action); }
  static constexpr Outcome fail(Failure failure, WcStatus status = WcStatus::success) {
    return Outcome(field(failure, kFailureShift) | field(status, kStatusShift));
  }
  static constexpr Outcome fail(Failure failure, AsyncEventType event) {
    return Outcome(kReport | field(failure, kFailureShift) | field(event, kEventShift));
  }

  constexpr bool nothing() const { return bits_ == 0; }
  constexpr bool only_wakes() const { return bits_ == kWake; }
  constexpr bool has(Action action) const { return (bits_ & action) != 0; }
  constexpr bool failed() const { return failure() != Failure::none; }
  constexpr Failure failure() const { return static_cast<Failure>(byte(kFailureShift)); }
  /// Of Failure::requester and Failure::send_queue; of Failure::plain that of a receive, or success.
  constexpr WcStatus status() const { return static_cast<WcStatus>(byte(kStatusShift)); }
  /// The event, where kReport is set.
  constexpr AsyncEventType event() const { return static_cast<AsyncEventType>(byte(kEventShift)); }

  /// Merges two outcomes. The first failure and the first report stand.
  constexpr Outcome& operator|=(Outcome other) {
    uint32_t added = other.bits_;
    if ((added >> 8) != 0) [[unlikely]] {
      if (failed()) added &= ~(mask(kFailureShift) | mask(kStatusShift));
      if (has(kReport)) added &= ~mask(kEventShift);
    }
    bits_ |= added;
    return *this;
  }
  /// Operands are evaluated in any order: at most one of them may have side effects.
  friend constexpr Outcome operator|(Outcome a, Outcome b) { return a |= b; }

 private:
  // Actions in the lowest byte, then one byte each: merging two outcomes is one instruction where nothing failed.
  static constexpr uint32_t kFailureShift = 8;
  static constexpr uint32_t kStatusShift = 16;
  static constexpr uint32_t kEventShift = 24;
  static constexpr uint32_t mask(uint32_t shift) { return 0xffu << shift; }
  static constexpr uint32_t field(auto value, uint32_t shift) { return static_cast<uint32_t>(value) << shift; }
  constexpr uint8_t byte(uint32_t shift) const { return static_cast<uint8_t>(bits_ >> shift); }
  explicit constexpr Outcome(uint32_t bits) : bits_(bits) {}

  uint32_t bits_ = 0;
};
static_assert(sizeof(Outcome) == 4, "an Outcome is returned in a register");

/// The result of sending. `more`: the burst is full, and the QP could send more.
struct Transmitted {
  bool more = false;
  Outcome out;
};

/// The result of trying to send a packet. `sent` is false when credits, window or pacing forbid it, or a key is bad.
struct Attempt {
  bool sent = true;
  Outcome out;
};

}  // namespace uroce::transport
