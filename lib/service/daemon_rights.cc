#include "service/daemon_rights.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message/connection.h"
#include "service/peer_process.h"

// Headers of Linux before 5.14 lack it.
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace uroce::service {

uint64_t network_namespace_of(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

DaemonRights DaemonRights::of_this_process() {
  const PeerProcess self = PeerProcess::self();
  const message::Fd any(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return {.uid = geteuid(),
          .net_admin = self.has_capability(CAP_NET_ADMIN),
          .user_namespace = self.user_namespace(),
          .network_namespace = network_namespace_of(any.get())};
}

}  // namespace uroce::service
