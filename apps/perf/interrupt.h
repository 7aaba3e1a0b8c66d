// ^C and SIGTERM end a run in an orderly way: the peer is told, and the exit code says so.
#pragma once

namespace uroce::perf {

/// Once, after EAL has started.
void catch_interrupts();
bool interrupted();

}  // namespace uroce::perf
