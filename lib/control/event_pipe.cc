#include "control/event_pipe.h"

#include <algorithm>
#include <array>
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

bool EventPipe::signal(uint8_t token) { return write(write_end_, &token, 1) == 1; }

std::size_t EventPipe::signal_many(std::size_t count) {
  std::array<char, 256> tokens;
  tokens.fill(1);
  std::size_t added = 0;
  while (added < count) {
    const ssize_t written = write(write_end_, tokens.data(), std::min(count - added, tokens.size()));
    if (written <= 0) break;
    added += static_cast<std::size_t>(written);
  }
  return added;
}

}  // namespace uroce::control
