// Starts a program in this process, with this process's words.
#pragma once

namespace uroce::daemon {

/// Returns only if that failed (execve(2)).
void become_program(const char* program);
/// This program anew, without descriptors of the service manager. Returns only if that failed. No right has been given
/// up.
void start_anew();

}  // namespace uroce::daemon
