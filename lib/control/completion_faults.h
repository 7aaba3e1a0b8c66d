// Fault rules at work on the completion queues of a device. Any thread, without the control lock.
#pragma once

#include <cstdint>

#include <uroce/error.h>

#include "base/time.h"
#include "control/device.h"
#include "control/held_completions.h"

namespace uroce::control {

/// Asks these rules about completions from now on; nullptr: no more. They live until then. Errors: ETIMEDOUT, ENOMEM.
Result<void> hold_completions(Device& device, CompletionRules* rules);
/// Gives programs the completions that are due.
void release_completions(Device& device, Nanos now);
/// An event of a completion that there is not.
void wake_completion_queue(Device& device, uint32_t cq);
/// The queue is in error, as if a completion had found no room; its next one ends its queue pair. A program that counts
/// its requests itself notices nothing.
void overrun_completion_queue(Device& device, uint32_t cq);

}  // namespace uroce::control
