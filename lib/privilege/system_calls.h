// The filter of system calls (seccomp(2)).
#pragma once

#include <span>

#include <uroce/error.h>

namespace uroce::privilege {

/// From now on every thread of the process may make only the system calls of a running daemon: on files, memory,
/// sockets of five families, threads, time; and `more`, by name. A process is one whose flags of clone(2) are among
/// `processes`. All others fail with ENOSYS, as on an older kernel, so
/// that a C library falls back where it can: starting a program, tracing a process, mounting, loading modules or BPF
/// programs, changing users or namespaces, keys. Nothing undoes this. The list is the one that systemd keeps for
/// services
/// (@system-service), without what an unprivileged daemon has no use for. A list from traces of the tests would miss a
/// driver's or a C library's next release. Errors: EINVAL and others of seccomp(2), where the kernel or a container has
/// none; the process goes on without it.
Result<void> limit_system_calls(std::span<const char* const> more = {}, std::span<const int> processes = {});

}  // namespace uroce::privilege
