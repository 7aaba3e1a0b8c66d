// ^C and SIGTERM end a run in an orderly way: the peer is told, and the exit code says so.
#pragma once

namespace uroce::perf {

/// Once, when the run is ready to ask interrupted() again and again: nothing else ends it at the first signal.
void catch_interrupts();
bool interrupted();

}  // namespace uroce::perf
