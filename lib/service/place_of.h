// The place of queue memory in a client's arena.
#pragma once

#include "message/protocol.h"
#include "service/arena.h"

namespace uroce::service {

/// `memory`: of the client's arena, as all queues of its session are.
inline message::Place place_of(const control::QueueMemory& memory) {
  const auto& placed = static_cast<const ArenaMemory&>(memory);
  return {.chunk = placed.chunk(), .offset = placed.offset(), .bytes = placed.size()};
}

}  // namespace uroce::service
