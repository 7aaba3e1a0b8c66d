#pragma once

#include <poll.h>

namespace uroce::control {

/// True when the descriptor has something to read now.
inline bool readable(int fd) {
  pollfd event{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&event, 1, 0) == 1;
}

}  // namespace uroce::control
