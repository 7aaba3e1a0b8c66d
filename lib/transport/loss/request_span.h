// The PSNs of one request, for loss detection.
#pragma once

#include "base/psn.h"

namespace uroce::transport {

struct RequestSpan {
  Psn first{};
  Psn end{};               ///< one past the last PSN
  bool is_read = false;    ///< one request packet stands for all its PSNs
  bool responded = false;  ///< a READ or atomic: the peer sends a response for each PSN
};

}  // namespace uroce::transport
