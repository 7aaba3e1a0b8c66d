// When the round of an engine began in which a thread is: for a signal handler that interrupts it.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace uroce {

/// When the calling thread's round began, nanoseconds on engine_clock. 0 outside of rounds.
inline constinit thread_local std::atomic<int64_t> engine_round_began [[gnu::tls_model("initial-exec")]]{0};

/// The clock of rounds, safe in signal handlers; nullptr until there is an engine.
inline std::atomic<Nanos (*)()> engine_clock{nullptr};

inline void begin_engine_round(Nanos now) {
  engine_round_began.store(now.count(), std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
inline void end_engine_round() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  engine_round_began.store(0, std::memory_order_relaxed);
}

/// How long the calling thread's round has lasted; 0 outside of rounds.
inline Nanos time_in_engine_round() {
  const Nanos began(engine_round_began.load(std::memory_order_relaxed));
  const auto clock = engine_clock.load(std::memory_order_relaxed);
  return clock != nullptr && began != Nanos(0) ? clock() - began : Nanos(0);
}

}  // namespace uroce
