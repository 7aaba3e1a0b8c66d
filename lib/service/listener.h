// The daemon's listening socket.
#pragma once

#include <sys/types.h>

#include <optional>

#include <uroce/error.h>

#include "message/connection.h"
#include "message/socket_lock.h"

namespace uroce::service {

/// A listening socket. One without a listener is left from a dead daemon, and is replaced, because its finder has the
/// lock. `mode` and `group` decide which users may connect; without a group it has the process's. Errors: EADDRINUSE (a
/// program without the lock listens there, or the path is something else), and those of bind(2), chown(2) and chmod(2).
Result<message::Fd> listen_at(const message::SocketOwner& owner, mode_t mode, std::optional<gid_t> group);

}  // namespace uroce::service
