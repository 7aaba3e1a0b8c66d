// The daemon before, as a stack that takes over its ports sees it.
#pragma once

#include <functional>
#include <vector>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/succession_messages.h"

namespace uroce::glue {

/// Tells the daemon before the facts of this one's devices, and returns the descriptors that it passes. They live until
/// the stack has started.
using AskPredecessor = std::function<Result<message::Belongings*>(std::vector<message::DeviceFacts>)>;

}  // namespace uroce::glue
