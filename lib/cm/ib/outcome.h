// The result of a step of one connection: a message, a timer, or a call.
//
// The parts of the connection manager decide, and change nothing but the connection and their counters. They add
// actions, which are for the caller of IbCm, and return an outcome. Only IbCm acts on that: it sets the timer, and
// enters the connection in tables or takes it out.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::cm {

struct CmOutcome {
  enum class Timer : uint8_t { keep, stop, start };
  /// The peer's numbers by which the connection is found.
  enum class Keys : uint8_t { keep, enter, free_qpn, free };

  Timer timer = Timer::keep;
  Keys keys = Keys::keep;
  bool answered = false;  ///< the request waits in no backlog any more
  Nanos after{0};         ///< with Timer::start
};
static_assert(sizeof(CmOutcome) == 16, "an outcome is returned in registers");

}  // namespace uroce::cm
