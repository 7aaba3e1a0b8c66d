// Tells the operator what the last restart kept, and whether the next one will keep as much.
#pragma once

#include <cstdint>
#include <string>

#include <uroce/stack.h>

#include "message/operator_messages.h"

namespace uroce::daemon {

/// The daemon before, and its part.
struct TakenOver {
  int32_t process = 0;  ///< 0: this process does not see it
  std::string version{};
  int64_t at_ns = 0;  ///< message::now_for_both_ns()
  int64_t frozen_ms = 0;
  uint32_t queue_pairs = 0;
  uint32_t refused = 0;  ///< clients
};

/// `last`: nullptr where there was no daemon before. `kept`: by the service manager. Any thread.
message::RestartRow restart_row(const Stack& stack, const TakenOver* last, bool kept);

}  // namespace uroce::daemon
