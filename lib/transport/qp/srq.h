// A shared receive queue, the engine's end. Lives on one engine, as do all QPs that use it.
#pragma once

#include <cstdint>
#include <span>

#include "memory/region_table.h"
#include "queues/ring.h"
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
};

}  // namespace uroce::transport
