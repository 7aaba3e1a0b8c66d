// The readiness of a stream, for rpoll().
#include <poll.h>

#include <cerrno>

#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

short Stream::readiness(short events) {
  switch (phase_.load()) {
    case Phase::listening: {
      const std::lock_guard lock(cm_mutex_);
      return static_cast<short>(arrivals_.none() ? 0 : events & POLLIN);
    }
    case Phase::refused: return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLERR);
    case Phase::connected:
    case Phase::disconnected:
    case Phase::broken: break;
    default: return 0;
  }
  int now = 0;
  if (has_data_or_end()) now |= POLLIN;
  if (writable_ && can_send()) now |= POLLOUT;
  now &= events;
  // Report readable data before POLLHUP: programs treat the hang-up as a failure and would lose the peer's last bytes.
  const bool unread = (now & POLLIN) != 0 && has_data();
  if (phase_ == Phase::disconnected && !unread) now |= POLLHUP;
  if (phase_ == Phase::broken) now |= POLLERR;
  return static_cast<short>(now);
}

short Stream::ready(short events) {
  if (phase_ >= Phase::connected) process(true, &Stream::at_all);
  return readiness(events);
}

short Stream::arm(short events) {
  if (phase_ == Phase::connected) process(false, &Stream::is_armed);
  return readiness(events);
}

int Stream::wait_fd() {
  switch (phase_.load()) {
    case Phase::listening: return arrivals_.fd();
    case Phase::connected:
    case Phase::disconnected:
    case Phase::broken: return endpoint_.fd();
    default: return -1;
  }
}

void Stream::take_event() {
  if (phase_ >= Phase::connected) wait_event();
}

}  // namespace uroce::dropin::rsocket
