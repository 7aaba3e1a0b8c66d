// Objects as another daemon had them, for this one to go on with. The memory of their queues stays as it is: the
// allocator of their session gives the same places again, with what is in them.
//
// The engines of both daemons are paused meanwhile (Engine::pause).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <uroce/flow.h>
#include <uroce/types.h>

#include "control/qpn_allocator.h"
#include "memory/region_table.h"
#include "transport/engine/traffic.h"
#include "transport/qp/cq_writer.h"

namespace uroce::control {

/// The numbers that a device will give out. Those drawn at random need no past.
struct DeviceNumbers {
  memory::KeyNumbers keys{};
  std::vector<QpnNumbers> qpns{};  ///< by engine
  uint64_t last_flow = 0;
};

/// By engine, where its readers of the session's doorbell rings go on: of the small ring, and of the large one if any.
struct SessionState {
  std::vector<std::vector<uint32_t>> doorbells{};
  transport::Traffic traffic{};  ///< so far
};

struct CqState {
  uint32_t id = 0;
  uint16_t moderation_count = 0;
  uint16_t moderation_us = 0;
  std::vector<transport::CqPosition> rings{};  ///< by engine
};

struct XrcDomainState {
  uint32_t id = 0;
  uint32_t engine = 0;
};

struct SrqState {
  uint32_t id = 0;
  uint32_t engine = 0;
  uint32_t next = 0;  ///< receives consumed so far
};

/// A receive rule.
struct FlowState {
  uint64_t id = 0;
  std::vector<FlowCounters> counts{};  ///< by engine
};

/// Without what the engine knows of it: see ControlQp::snapshot().
struct QpIdentity {
  uint32_t qpn = 0;
  bool on_large_doorbells = false;
  std::vector<Gid> groups{};  ///< multicast
};

}  // namespace uroce::control
