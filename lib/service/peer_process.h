// The process at the other end of a socket, and what /proc tells of it. A pid alone proves nothing: its process may
// have ended, and another one may have the number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "message/connection.h"

namespace uroce::service {

class PeerProcess {
 public:
  /// The process that connected `socket`. nullopt where it has ended, is of a foreign PID namespace, or is hidden. The
  /// kernel holds it (SO_PEERPIDFD) from Linux 6.5 on. Before that it is the one that has the number now.
  static std::optional<PeerProcess> of(int socket);
  /// This process.
  static PeerProcess self();

  /// A file of its folder. Empty once it has ended, and where this process may not read it.
  std::string read(const char* file) const;
  /// As /proc/PID/ns/user names it; empty where this process may not know.
  std::string user_namespace() const;
  /// Whether it lives in the user namespace `name`, which is this process's own. It may leave that one for a new one
  /// only, and never comes back. So all that was read before is of a process of this namespace.
  bool is_in_own_user_namespace(std::string_view name) const;
  /// The user who made the user namespace in which it is, or the one around that, next to this process's own
  /// (NS_GET_OWNER_UID). nullopt in its own, for root, and where this process may not know.
  std::optional<uint32_t> namespace_owner() const;
  /// Every user may read this (proc(5)).
  bool has_capability(int capability) const;
  /// Whether its rights are those of user `uid`: it runs no set-uid program, and none whose file has capabilities. The
  /// kernel gives the files of such processes to root (proc(5), prctl(2) PR_SET_DUMPABLE).
  bool runs_as(uint32_t uid) const;

 private:
  explicit PeerProcess(message::Fd folder) : folder_(std::move(folder)) {}

  message::Fd folder_;  // of /proc; it names no other process later
};

}  // namespace uroce::service
