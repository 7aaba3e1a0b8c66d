#include "dropin/common/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "dropin/common/kernel_epoll.h"

namespace uroce::dropin {

int outer_descriptor(int fd) {
  const int outer = kernel_epoll::create();
  if (outer < 0) return -1;
  epoll_event event{};
  event.events = EPOLLIN;
  if (kernel_epoll::ctl(outer, EPOLL_CTL_ADD, fd, &event) != 0) {
    const int reason = errno;
    close(outer);
    errno = reason;
    return -1;
  }
  return outer;
}

void quiet(int outer, int fd) {
  const int reason = errno;
  kernel_epoll::ctl(outer, EPOLL_CTL_DEL, fd, nullptr);
  errno = reason;
}

bool non_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace uroce::dropin
