// Reads the contents of the page of metrics.
#pragma once

#include <uroce/stack.h>

#include "metrics/page.h"
#include "service/server.h"

namespace uroce::daemon {

/// Any thread.
metrics::State read_metrics(const Stack& stack, const service::Server& server);

}  // namespace uroce::daemon
