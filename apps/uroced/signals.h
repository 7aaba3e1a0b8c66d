// The daemon's signals, taken one at a time by its main thread.
#pragma once

#include <chrono>
#include <optional>

#include <signal.h>

namespace uroce::daemon {

class Signals {
 public:
  /// Call it before any thread starts. It blocks SIGTERM, SIGINT and SIGHUP in every thread until they are taken, and
  /// ignores SIGPIPE.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Of wait(): no signal, but ring().
  static constexpr int kBell = 0;
  /// Any thread: ends a wait, or the next one.
  void ring() const;
  /// The next signal, or nullopt after `limit`; a negative one waits for ever.
  std::optional<int> wait(std::chrono::milliseconds limit);
  /// For when the program begins to end: from now on SIGTERM and SIGINT end the process at once, with exit code 1, if
  /// they come kOneEndRequest or more after this call (base/end_request.h).
  void leave_at_a_later_one();

 private:
  sigset_t set_{};
  int fd_ = -1;
  int bell_ = -1;
};

}  // namespace uroce::daemon
