// Hands a daemon over to its successor.
#pragma once

#include <functional>

#include <uroce/stack.h>

#include "service/server.h"
#include "uroced/log.h"
#include "uroced/service_manager.h"
#include "uroced/succession_desk.h"

namespace uroce::daemon {

// The main thread calls these. They return only if they failed, and everything goes on then. Else the process has
// ended.

Error hand_over(const SuccessionDesk::Request& successor, service::Server& server, Stack& stack,
                ServiceManager& manager, Log& log);
/// The same where no successor is there yet: the service manager keeps its part. Errors: EOPNOTSUPP (a port that is no
/// interface of the kernel).
Error leave(service::Server& server, Stack& stack, const std::function<message::Belongings()>& lend,
            ServiceManager& manager, Log& log);

}  // namespace uroce::daemon
