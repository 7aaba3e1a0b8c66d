// A shared receive queue, the engine's end. Lives on one engine, as do all QPs that use it.
#pragma once

#include <cstdint>

#include "memory/region_table.h"
#include "queues/ring.h"

namespace uroce::transport {

struct Srq {
  uint32_t id = 0;
  memory::PdId pd = 0;
  uint32_t max_sge = 1;
  queues::SrqHeader* header = nullptr;  ///< shared: the limit
  queues::RingConsumer ring;
};

}  // namespace uroce::transport
