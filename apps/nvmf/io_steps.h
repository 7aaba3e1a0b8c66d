// The kernel's operations for an Io, one after the other. No ring, and no state but the Io's.
#pragma once

#include <liburing.h>

#include <optional>

#include "nvmf/io.h"

namespace uroce::nvmf {

/// Comes before the first operation.
void begin_steps(Io& io);
/// Describes the Io's next operation.
void prepare_step(io_uring_sqe* sqe, const Io& io);
/// Takes that operation's result. Nothing when there is another one to prepare; else the Io has ended with this error.
std::optional<int> end_step(Io& io, int result);

}  // namespace uroce::nvmf
