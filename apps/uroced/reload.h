// Reads the settings again (SIGHUP).
#pragma once

#include <uroce/stack.h>

#include "service/server.h"
#include "uroced/command_line.h"
#include "uroced/log.h"

namespace uroce::daemon {

/// The main thread's. Applies what can change while the daemon runs; after an error everything stays. The log says
/// which.
void reload(const CommandLine& command, Config& config, Stack& stack, service::Server& server, Log& log);

}  // namespace uroce::daemon
