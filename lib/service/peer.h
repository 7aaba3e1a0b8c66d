// The process at the other end of a client's socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "service/daemon_rights.h"

namespace uroce::service {

/// As the kernel reported it when the process connected (SO_PEERCRED, unix(7)). /proc then tells the rest of that very
/// process, which may meanwhile run another program. So a capability that a program's file can give is no right here.
/// A process that /proc does not show, because it ended or lives in a foreign PID namespace, has no privilege.
struct Peer {
  int32_t pid = 0;
  uint32_t uid = 65534;  ///< in the daemon's user namespace; 65534 for all users that it does not have
  /// Root, or the daemon's own user, of the daemon's user namespace. Root of a container that lacks CAP_NET_ADMIN is
  /// not privileged towards a daemon that has it.
  bool privileged = false;
  uint64_t locked_bytes = 0;  ///< RLIMIT_MEMLOCK (getrlimit(2)); 0 when it cannot be read
  std::string command{};      ///< its name, printable
  /// The user who made its user namespace; nothing where that is no other one's, or is not known.
  std::optional<uint32_t> namespace_owner{};
  /// The uid whose budget it has a part of, where that is another one's.
  std::optional<uint32_t> charged_to{};

  uint32_t payer() const { return charged_to.value_or(uid); }
  static Peer of(int socket, const DaemonRights& daemon);
};

}  // namespace uroce::service
