// The timer of SO_KEEPALIVE.
#pragma once

#include <functional>

namespace uroce::dropin::rsocket {

class Keepalive {
 public:
  /// TCP_KEEPIDLE.
  int seconds() const;
  /// Sets it. A timer that runs begins anew. 0, or -1 with errno.
  int set_seconds(int seconds, std::function<void()> on_readable);

  /// No effect while it runs. `on_readable` is called on the watcher's thread, and asks expired() first. 0, or -1 with
  /// errno.
  int start(std::function<void()> on_readable);
  /// When it returns, the handler is not running, unless the handler itself is the caller.
  void stop();
  /// The time is up, and the next interval begins.
  bool expired() const;
  /// Closes the descriptor alone.
  void reset();

 private:
  int seconds_ = 0;  ///< 0: the system's
  int fd_ = -1;
};

}  // namespace uroce::dropin::rsocket
