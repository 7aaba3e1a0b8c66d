// The readiness of a stream, for rpoll().
#include <poll.h>

#include <cerrno>

#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

short Stream::readiness(short events) {
  switch (state_.phase()) {
    case Phase::listening: {
      const std::lock_guard lock(cm_mutex_);
      return static_cast<short>(arrivals_.none() ? 0 : events & POLLIN);
    }
    case Phase::refused: return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLERR);
    case Phase::connected:
    case Phase::disconnected:
    case Phase::broken: return connection_.readiness(events);
    default: return 0;
  }
}

short Stream::ready(short events) {
  if (state_.phase() >= Phase::connected) connection_.process();
  return readiness(events);
}

short Stream::arm(short events) {
  if (state_.connected()) connection_.arm();
  return readiness(events);
}

int Stream::wait_fd() {
  switch (state_.phase()) {
    case Phase::listening: return arrivals_.fd();
    case Phase::connected:
    case Phase::disconnected:
    case Phase::broken: return connection_.wait_fd();
    default: return -1;
  }
}

void Stream::take_event() {
  if (state_.phase() >= Phase::connected) connection_.wait_event();
}

}  // namespace uroce::dropin::rsocket
