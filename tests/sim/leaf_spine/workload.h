// The flows of a plan, and how long each would take alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/sim/leaf_spine/plan.h"

namespace uroce::sim {

struct FabricFlow {
  uint32_t from = 0;
  uint32_t to = 0;
  uint64_t bytes = 0;
  Picos start{0};
  Picos end{-1};  ///< when its sender knows that all has arrived; negative: never
  WcStatus status = WcStatus::success;

  bool done() const { return end >= Picos(0) && status == WcStatus::success; }
};

/// The flows stand in the order of their beginnings.
std::vector<FabricFlow> make_flows(const FabricPlan& plan);

/// The time of a flow in an empty fabric: all its packets at the host's rate, the last one over all links, its ACK
/// back.
Picos ideal_time(const FabricPlan& plan, const FabricFlow& flow);

}  // namespace uroce::sim
