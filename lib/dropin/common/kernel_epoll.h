// epoll(7) of the kernel for the library's own use. librspreload of rdma-core 65 replaces epoll_create1() and its like
// for all of a program, and gives numbers that the kernel cannot poll.
#pragma once

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace uroce::dropin::kernel_epoll {

inline int create() { return static_cast<int>(syscall(SYS_epoll_create1, EPOLL_CLOEXEC)); }

inline int ctl(int epoll, int operation, int fd, epoll_event* event) {
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}

/// Waits for ever for one event.
inline int wait(int epoll, epoll_event& event) {
  return static_cast<int>(syscall(SYS_epoll_pwait, epoll, &event, 1, -1, nullptr, std::size_t{8}));
}

}  // namespace uroce::dropin::kernel_epoll
