// The daemon's listening socket.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::service {

/// A listening socket at `path`, whose folder is made when missing. A socket there without a listener is left from a
/// dead daemon, and is replaced. `mode` and `group` decide which users may connect; without a group it has the
/// process's. Errors: EADDRINUSE (a live daemon has the socket, or the path is something else), EINVAL (the path's
/// length), and those of bind(2), chown(2) and chmod(2).
Result<message::Fd> listen_at(const std::string& path, mode_t mode, std::optional<gid_t> group);

}  // namespace uroce::service
