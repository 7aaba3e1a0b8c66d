// Every operation of the protocol: what it needs, which message it takes, and who serves it.
#pragma once

#include "service/operation.h"

namespace uroce::service {

/// nullptr where `op` is no operation.
const Operation* find_operation(message::Op op);

/// Finds the call's operation, checks what it needs, and serves it.
Result<Reply> serve_call(ClientState& client, Call& call);

}  // namespace uroce::service
