// Looking at rsockets together with other descriptors, and waiting for them.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "dropin/rsocket/settings.h"
#include "dropin/rsocket/socket.h"

namespace uroce::dropin::rsocket {

using PollClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// The descriptors of one call, and the rsockets among them.
class Poll {
 public:
  explicit Poll(std::span<pollfd> fds);

  /// The number of ready descriptors, without waiting; -1 with errno.
  int look();
  /// Waits for a change of any, at most that long. Returns how many seem ready; 0 to check again; -1 with errno.
  int sleep(Milliseconds most);

 private:
  /// Plain descriptors are checked by the kernel.
  int look_at_plain();
  int arm(std::vector<pollfd>& real);

  std::span<pollfd> fds_;
  std::vector<std::shared_ptr<Socket>> sockets_;
};

/// Looks until look() does not give 0, or for `timeout` milliseconds: for ever where that is negative. Gives what it
/// found; -1 with errno where sleep() fails.
template <class Look, class Sleep>
int look_for(int timeout, Look look, Sleep sleep) {
  const auto start = PollClock::now();
  int ready = 0;
  do {
    ready = look();
    if (ready != 0 || timeout == 0) return ready;
  } while (PollClock::now() - start < settings().polling_time);
  while (true) {
    Milliseconds left = settings().wake_up_interval;
    if (timeout > 0) {
      const auto passed = std::chrono::duration_cast<Milliseconds>(PollClock::now() - start);
      if (passed.count() >= timeout) return 0;
      left = std::min(left, Milliseconds(timeout) - passed);
    }
    if (sleep(left) < 0) return -1;
    ready = look();
    if (ready != 0) return ready;
  }
}

}  // namespace uroce::dropin::rsocket
