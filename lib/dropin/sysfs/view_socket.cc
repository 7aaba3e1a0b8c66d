#include "dropin/sysfs/view_socket.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce::dropin {

namespace {

constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};

bool find_view(sockaddr_un& address) {
  const char* const tree = std::getenv("UROCE_SYSFS");
  if (tree == nullptr) return false;
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path, sizeof address.sun_path, "%s/netlink", tree);
  return length > 0 && static_cast<std::size_t>(length) < sizeof address.sun_path;
}

}  // namespace

int connect_to_view() {
  sockaddr_un address;
  if (!find_view(address)) return -1;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool is_of_view(int fd) {
  const int kept = errno;
  sockaddr_un wanted, peer{};
  socklen_t length = sizeof peer;
  const bool found = find_view(wanted) && getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
                     peer.sun_family == AF_UNIX && std::strcmp(peer.sun_path, wanted.sun_path) == 0;
  errno = kept;
  return found;
}

void refresh_counters() {
  const int kept = errno;
  const int fd = connect_to_view();
  if (fd >= 0) {
    char byte = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    if (send(fd, &byte, sizeof byte, MSG_NOSIGNAL) == sizeof byte) static_cast<void>(recv(fd, &byte, sizeof byte, 0));
    close(fd);
  }
  errno = kept;
}

}  // namespace uroce::dropin
