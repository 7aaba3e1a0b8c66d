#include "pmd_glue/kif/readable.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::glue::kif {

Readable::Readable() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

Readable::~Readable() {
  if (epoll_ >= 0) close(epoll_);
}

Result<void> Readable::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  const int code = errno;
  return fail(code, fmt::format("cannot watch a packet socket: {}; check the limit of descriptors (ulimit -n)",
                                std::strerror(code)));
}

}  // namespace uroce::glue::kif
