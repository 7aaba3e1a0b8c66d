// The socket in the tree at which uroce-run answers what files cannot (apps/uroce-run/view_server.h).
#pragma once

namespace uroce::dropin {

/// Connects; a descriptor that closes at exec(). -1 without uroce-run, and while it stands still.
int connect_to_view();
/// Whether the descriptor is such a connection.
bool is_of_view(int fd);
/// Has the counters' files brought up to date. Waits a second at most. Keeps errno.
void refresh_counters();

}  // namespace uroce::dropin
