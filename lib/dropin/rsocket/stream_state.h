// The phase of a stream, the ways that are open, and the reason of a failure.
#pragma once

#include <atomic>
#include <cstdint>

#include "dropin/rsocket/waiters.h"

namespace uroce::dropin::rsocket {

enum class Phase : uint8_t {
  idle,
  bound,
  listening,
  connecting,
  refused,  ///< connecting failed; SO_ERROR has the reason
  connected,
  disconnected,
  broken,
};

/// Any thread. The stream has a lock for changes of the phase before Phase::connected.
class StreamState {
 public:
  /// Wakes `waiters` when a connection ends.
  explicit StreamState(Waiters& waiters) : waiters_(waiters) {}

  Phase phase() const { return phase_; }
  void set(Phase into) { phase_ = into; }
  bool connected() const { return phase_ == Phase::connected; }
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  void end_reading() { readable_ = false; }
  void end_writing() { writable_ = false; }

  void establish() {
    readable_ = writable_ = true;
    phase_ = Phase::connected;
  }
  /// Leaves Phase::connected. No effect in another.
  void part(Phase into) {
    Phase from = Phase::connected;
    if (!phase_.compare_exchange_strong(from, into)) return;
    readable_ = writable_ = false;
    waiters_.wake();
  }
  /// The connection breaks for this errno value. No effect unless connected.
  void breaks(int reason) {
    if (!connected()) return;
    error_ = reason;
    part(Phase::broken);
  }
  void set_error(int reason) { error_ = reason; }
  /// 0 when there is none, or it was taken.
  int take_error() { return error_.exchange(0); }

 private:
  Waiters& waiters_;
  std::atomic<Phase> phase_{Phase::idle};
  std::atomic<bool> readable_{false};
  std::atomic<bool> writable_{false};
  std::atomic<int> error_{0};
};

}  // namespace uroce::dropin::rsocket
