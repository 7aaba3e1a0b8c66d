// Why a queue pair ended, in a sentence for the operator.
#pragma once

#include <string>

#include "transport/core/seam.h"

namespace uroce::service {

/// "queue pair 0x12 to 0x34 at 192.0.2.1 ended with retry_exceeded (status 12): ...". `link_was_down`: while its last
/// request waited.
std::string text_of(const transport::QpEnd& end, bool link_was_down = false);

}  // namespace uroce::service
