// The devices that a program may still open (Landlock, landlock(7)).
#pragma once

#include <uroce/error.h>

namespace uroce::privilege {

/// From now on no thread of the process opens a file below /dev, but for memory, random numbers and the devices of
/// network ports. Open files stay open, and nothing undoes this. Calls through an io_uring are bound as well, which
/// no filter of system calls sees. After prepare_privileges() and before limit_system_calls(). The main thread. Errors:
/// ENOSYS and EOPNOTSUPP, where the kernel has no Landlock, and the process goes on without it; those of
/// on_other_threads().
Result<void> deny_devices();

}  // namespace uroce::privilege
