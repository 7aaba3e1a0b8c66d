// accept4(2) for librspreload of rdma-core, which has accept() alone. Servers of Python and Perl call accept4(), and
// were told that the listening rsocket is no socket.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
// As in redirect.cc, with which it may be compiled as one.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

extern "C" int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  auto* const of_kernel = reinterpret_cast<decltype(&accept4)>(dlsym(RTLD_NEXT, "accept4"));
  int made = of_kernel(fd, address, length, flags);
  if (made >= 0 || errno != ENOTSOCK) return made;
  // librspreload's calls, where it is loaded.
  made = accept(fd, address, length);
  if (made >= 0 && (flags & SOCK_NONBLOCK) != 0) fcntl(made, F_SETFL, fcntl(made, F_GETFL) | O_NONBLOCK);
  return made;
}
