// The rights of the daemon, which those of its peers are compared with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace uroce::service {

struct DaemonRights {
  uid_t uid = 0;
  bool net_admin = false;          ///< it has CAP_NET_ADMIN in effect, or had it at its start
  std::string user_namespace{};    ///< as /proc/PID/ns/user names it
  uint64_t network_namespace = 0;  ///< network_namespace_of() its sockets
  static DaemonRights of_this_process();
};

/// The number that no other network namespace ever has (SO_NETNS_COOKIE). 0 where the kernel tells none, as Linux
/// before 5.14, and where `fd` is no socket.
uint64_t network_namespace_of(int fd);

}  // namespace uroce::service
