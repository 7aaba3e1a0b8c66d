#include "control/event_fd.h"

#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

namespace uroce::control {

Result<EventFd> EventFd::create() {
  const int fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    const int code = errno;
    return fail(code, fmt::format("eventfd: {}; if no file descriptor is left, raise the limit (ulimit -n)",
                                  std::strerror(code)));
  }
  return EventFd(fd);
}

EventFd::~EventFd() {
  if (fd_ >= 0) close(fd_);
}

void EventFd::signal() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(fd_, &one, sizeof one);  // full only after 2^64 - 2 events
}

bool EventFd::take() {
  uint64_t value = 0;
  return read(fd_, &value, sizeof value) == sizeof value;
}

}  // namespace uroce::control
