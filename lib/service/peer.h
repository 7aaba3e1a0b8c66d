// The process at the other end of a client's socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace uroce::service {

/// The rights of the daemon, which those of its peers are compared with.
struct DaemonRights {
  uid_t uid = 0;
  bool net_admin = false;        ///< it has CAP_NET_ADMIN in effect, or had it at its start
  std::string user_namespace{};  ///< as /proc/PID/ns/user names it
  static DaemonRights of_this_process();
};

/// As the kernel reported it when the process connected (SO_PEERCRED, unix(7)). /proc then tells the rest. A process
/// that /proc does not show, because it ended or lives in a foreign PID namespace, has no privilege.
struct Peer {
  int32_t pid = 0;
  uint32_t uid = 65534;  ///< in the daemon's user namespace; 65534 for all users that it does not have
  /// Root, or the daemon's own user, of the daemon's user namespace. Root of a container that lacks CAP_NET_ADMIN is
  /// not privileged towards a daemon that has it.
  bool privileged = false;
  /// CAP_NET_RAW of the daemon's user namespace, in effect.
  bool net_raw = false;
  uint64_t locked_bytes = 0;  ///< RLIMIT_MEMLOCK (getrlimit(2)); 0 when it cannot be read
  std::string command{};      ///< its name, printable

  static Peer of(int socket, const DaemonRights& daemon);
};

}  // namespace uroce::service
