// A network namespace of a test's own.
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string_view>
#include <thread>

namespace uroce::glue {

/// Runs `test` on a thread in a namespace where `lo` is up; the namespace ends with the thread. False if this machine
/// makes none.
inline bool in_a_namespace(const std::function<void()>& test) {
  bool made = false;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) return;
    ifreq lo{};
    std::string_view("lo").copy(lo.ifr_name, IFNAMSIZ - 1);
    lo.ifr_flags = IFF_UP;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    made = ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    close(fd);
    if (made) test();
  }).join();
  return made;
}

}  // namespace uroce::glue
