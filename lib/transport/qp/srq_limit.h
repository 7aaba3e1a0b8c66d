// The limit of a shared receive queue (IBTA vol. 1, 10.2.9.3).
#pragma once

#include <atomic>

#include "transport/core/seam.h"
#include "transport/qp/srq.h"

namespace uroce::transport {

/// One event when the queue falls below the limit, which is then disarmed.
inline void check_srq_limit(Srq& srq, EngineEvents& events) {
  auto& limit = srq.header->limit;
  const uint32_t wanted = limit.load(std::memory_order_relaxed);
  if (wanted == 0 || srq.ring.available() >= wanted) return;
  limit.store(0, std::memory_order_relaxed);
  events.on_async_event(AsyncEventType::srq_limit_reached, srq.id);
}

}  // namespace uroce::transport
