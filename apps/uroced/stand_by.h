// Keeps a container alive once its daemon has handed over to one in another container.
#pragma once

namespace uroce::daemon {

/// Call it before any thread starts. Returns in a child process, which is to be the daemon. The calling process passes
/// signals on and ends as the child does. Where the child ends of its own accord without a failure, another daemon has
/// taken over: then the calling process waits for SIGTERM or SIGINT, so that nobody starts the container again.
void stand_by();

}  // namespace uroce::daemon
