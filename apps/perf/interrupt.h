// ^C and SIGTERM end a run in order: the peer gets a message, and the exit code shows it.
#pragma once

namespace uroce::perf {

/// Call it once, when the run is ready to call interrupted() again and again. From then on the first signal does not
/// end the process.
void catch_interrupts();
bool interrupted();

}  // namespace uroce::perf
