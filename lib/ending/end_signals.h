// ^C and SIGTERM in programs that end in order.
#pragma once

namespace uroce {

/// From now on SIGINT and SIGTERM do not end the process, but make end_asked() true and interrupt system calls. One
/// that comes kOneEndRequest or more after the first (base/end_request.h) ends it at once, by that signal. `last_act`,
/// if given, runs before, in the signal handler.
void catch_end_signals(void (*last_act)() = nullptr);
bool end_asked();

}  // namespace uroce
