#include "control/event_pipe.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace uroce::control {

Result<EventPipe> EventPipe::create() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    const int code = errno;
    return fail(
        code, fmt::format("pipe: {}; if no file descriptor is left, raise the limit (ulimit -n)", std::strerror(code)));
  }
  return EventPipe(ends[0], ends[1]);
}

EventPipe::~EventPipe() {
  if (read_end_ >= 0) close(read_end_);
  if (write_end_ >= 0) close(write_end_);
}

bool EventPipe::signal() {
  const char token = 1;
  return write(write_end_, &token, 1) == 1;
}

}  // namespace uroce::control
