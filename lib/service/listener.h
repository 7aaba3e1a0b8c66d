// The daemon's listening socket.
#pragma once

#include <sys/types.h>

#include <optional>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/connection.h"
#include "message/socket_lock.h"

namespace uroce::service {

/// A listening socket. One without a listener is left from a dead daemon, and is replaced, because its finder has the
/// lock. `mode` and `group` decide which users may connect; without a group it has the process's. Errors: EADDRINUSE (a
/// program without the lock listens there, or the path is something else), and those of bind(2), chown(2) and chmod(2).
Result<message::Fd> listen_at(const message::SocketOwner& owner, mode_t mode, std::optional<gid_t> group);

/// The name of the listening socket among a daemon's belongings.
inline constexpr const char* kListenerName = "listener";
/// The socket on which the daemon before listens. Errors: EINVAL (it is missing, or another one).
Result<message::Fd> inherit_listener(message::Belongings& belongings, const message::SocketOwner& owner);
/// Programs that connect find this process at the other end from now on (SO_PEERCRED).
void own_listener(int fd);

}  // namespace uroce::service
