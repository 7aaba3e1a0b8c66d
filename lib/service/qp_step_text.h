// The changes of a queue pair's state, in words.
#pragma once

#include <span>
#include <string>

#include "message/qp_messages.h"

namespace uroce::service {

/// E.g. "INIT, RTR to 0x12 at 10.0.0.2 with a path MTU of 1024 bytes, RTS with a timeout of 67 ms, ...". Empty where no
/// step changes the state.
std::string steps_text(std::span<const message::ModifyStep> steps);

}  // namespace uroce::service
