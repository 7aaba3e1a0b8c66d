// The daemon's side of its supervisor (supervisor.h).
#pragma once

#include <sys/types.h>

#include <optional>

namespace uroce::daemon {

/// A supervisor has this for a process that it starts.
struct Supervised {
  pid_t supervisor = 0;
  bool again = false;  ///< no first run
};

/// The supervisor's, in the process that becomes the daemon: the environment for it, before this program starts anew.
void tell_supervised(const Supervised& self);
/// Reads what this process was told, also after it has started anew; nullopt where no supervisor started it.
std::optional<Supervised> read_supervised();
/// From now on the supervisor's death sends SIGTERM to this process, or has sent it: nobody would pass signals on, or
/// keep what clients have. A change of the user undoes this. Does nothing without a supervisor.
void end_with_supervisor();

}  // namespace uroce::daemon
