// The rights that the target gives up once its disks and ports are open.
#pragma once

#include <uroce/error.h>

#include "nvmf/command_line.h"
#include "nvmf/network.h"

namespace uroce::nvmf {

/// Before a host is served. The main thread. As root the process becomes Options::user where there is one; the
/// capabilities of all threads go but for those that closing the network's ports needs, on the main thread; devices
/// cannot be opened any more; system calls are limited. Errors: those of privilege::give_up_privileges(), after which
/// the process must end.
Result<void> give_up_rights(const Options& options, const Network& network);

}  // namespace uroce::nvmf
