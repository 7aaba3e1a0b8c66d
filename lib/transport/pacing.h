// What one queue pair needs to send no faster than congestion control says, and to tell its peer of marks.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/timer_wheel.h"

namespace uroce::transport {

struct Pacing {
  TimerNode wake;              ///< on the pacing wheel while the queue pair waits for its turn
  Nanos next_send{0};          ///< when the next data packet may leave
  double owed_ns = 0;          ///< what next_send leaves out, less than a nanosecond
  bool requests_first = true;  ///< requests and READ responses share the rate in turns
};

struct Notification {
  Nanos next_cnp{0};       ///< marks are reported again from then on
  Nanos next_reaction{0};  ///< and reports heeded
  uint64_t cnps_sent = 0;
  uint64_t cnps_received = 0;
};

}  // namespace uroce::transport
