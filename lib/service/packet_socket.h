// The right to raw packets. They are the port's, and reach every program on it, so they need CAP_NET_RAW in the
// daemon's user namespace. The files of /proc are no proof: a process may have connected as an ordinary program, and
// run a set-uid one since. A packet socket is one: only that capability opens it (packet(7)).
#pragma once

#include <uroce/error.h>

#include "service/daemon_rights.h"

namespace uroce::service {

/// Whether `fd` proves the right. It is of the daemon's network namespace, or of that of the process that connected
/// `connection` and lives in the daemon's user namespace. Everybody may make other namespaces and sockets in them.
/// Errors: EPERM, which says why not.
Result<void> check_packet_socket(int fd, int connection, const DaemonRights& daemon);

}  // namespace uroce::service
