// The settings that engines under test have in each of the simulated networks with rates.
#pragma once

#include <cstdint>

#include "transport/core/engine_config.h"

namespace uroce::sim {

/// `plan`: a Scenario or a FabricPlan. `gbps`: of the host's link.
template <class Plan>
transport::EngineConfig engine_config(const Plan& plan, Retransmission retransmission, double gbps, uint32_t qps,
                                      uint64_t seed) {
  transport::EngineConfig config;
  config.max_qps = qps;
  config.window_packets = plan.window_packets;
  config.settings.retransmission = retransmission;
  config.settings.congestion = plan.congestion;
  uint32_t& line_rate = config.settings.congestion.dcqcn.line_rate_mbps;
  if (line_rate == 0) line_rate = static_cast<uint32_t>(gbps * 1000);
  config.settings.udp_source_ports = plan.udp_source_ports;
  config.seed = seed;
  return config;
}

}  // namespace uroce::sim
