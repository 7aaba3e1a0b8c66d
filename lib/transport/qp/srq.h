// A shared receive queue, the engine's end. Lives on one engine, as do all QPs that use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "memory/region_table.h"
#include "queues/ring.h"
#include "transport/core/seam.h"
#include "transport/qp/cq_writer.h"

namespace uroce::transport {

struct Qp;

struct Srq {
  uint32_t id = 0;
  memory::PdId pd = 0;
  uint32_t max_sge = 1;
  queues::SrqHeader* header = nullptr;  ///< shared: the limit
  queues::RingConsumer ring;
  // XRC: `id` is the number that requests name.
  uint32_t xrc_domain = 0;             ///< 0: not an XRC queue
  CqWriter* cq = nullptr;              ///< XRC: of all its receives
  Srq* next_in_table = nullptr;        ///< XrcSrqTable
  Qp* holders = nullptr;               ///< XRC: the QPs with one of its receives in use
  std::span<queues::HeldRecv> held{};  ///< XRC, shared: where holders tell of it
  uint64_t held_in_use = 0;            ///< XRC: a bit for each of these places

  /// Reports one event when the queue falls below its limit, which is then disarmed (IBTA vol. 1, 10.2.9.3).
  void check_limit(EngineEvents& events) const {
    auto& limit = header->limit;
    const uint32_t wanted = limit.load(std::memory_order_relaxed);
    if (wanted == 0 || ring.available() >= wanted) return;
    limit.store(0, std::memory_order_relaxed);
    events.on_async_event(AsyncEventType::srq_limit_reached, id);
  }
};

}  // namespace uroce::transport
