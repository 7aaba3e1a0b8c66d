// Runs a function on each thread of the process. The kernel keeps capabilities per thread, and EAL's drivers start
// threads of their own.
#pragma once

#include <chrono>

#include <uroce/error.h>

namespace uroce::privilege {

/// Calls `work` once on every thread but the calling one, in a signal handler (SIGRTMIN + 7): it may use only what
/// signal-safety(7) allows. Threads that start meanwhile are covered as well. One thread may call this at a time.
/// Errors: ETIMEDOUT, with the name of a thread that has not run `work` within `limit`, since it blocks the signal;
/// those of reading /proc/self/task.
Result<void> on_other_threads(void (*work)(), std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace uroce::privilege
