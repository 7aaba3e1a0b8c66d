// Hands a daemon over to a successor that is ready.
#pragma once

#include <uroce/stack.h>

#include "service/server.h"
#include "uroced/log.h"
#include "uroced/succession_desk.h"

namespace uroce::daemon {

/// The main thread. Returns only if it failed, and everything goes on then. Else the process has ended.
Error hand_over(const SuccessionDesk::Request& successor, service::Server& server, Stack& stack, Log& log);

}  // namespace uroce::daemon
