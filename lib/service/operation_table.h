// Every operation of the protocol: its preconditions, its message and its handler.
#pragma once

#include "service/operation.h"

namespace uroce::service {

/// nullptr when `op` is unknown.
const Operation* find_operation(message::Op op);

/// Finds the call's operation, checks its preconditions, and runs its handler.
Result<Reply> serve_call(ClientState& client, Call& call);

}  // namespace uroce::service
