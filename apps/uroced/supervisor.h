// `--supervise`: a small service manager for one daemon, where there is no other.
#pragma once

namespace uroce::daemon {

/// Call it before any thread starts. Starts this program again as its child, with the same words, and passes signals
/// on. Keeps the descriptor that the child leaves by sd_notify(3). A child that was killed, or that ended in order, and
/// left one starts again with it. Any other end is the end of this process, too: returns the exit code.
/// `stays`: a child that ended in order without one has handed over to another daemon. Then this waits for SIGTERM or
/// SIGINT, so that nobody starts the container again.
int supervise(bool stays);

}  // namespace uroce::daemon
