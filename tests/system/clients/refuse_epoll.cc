// Preloaded by test_later_calls.py: epoll(7) of the C library fails. librspreload of rdma-core 65 replaces it for the
// whole program, the drop-in libraries included, which must not need it.
#include <sys/epoll.h>

#include <cerrno>

namespace {

int refuse() {
  errno = ENOSYS;
  return -1;
}

}  // namespace

extern "C" {

int epoll_create(int /*size*/) noexcept { return refuse(); }
int epoll_create1(int /*flags*/) noexcept { return refuse(); }
int epoll_ctl(int /*epfd*/, int /*op*/, int /*fd*/, epoll_event* /*event*/) noexcept { return refuse(); }
int epoll_wait(int /*epfd*/, epoll_event* /*events*/, int /*most*/, int /*timeout*/) { return refuse(); }

}  // extern "C"
