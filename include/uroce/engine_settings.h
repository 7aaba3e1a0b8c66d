// Settings of a device and its engines. Ranges are in config/uroced.toml; a value outside is refused when the stack
// starts.
#pragma once

#include <cstdint>

#include <uroce/congestion.h>
#include <uroce/types.h>

namespace uroce {

/// The same value goes from StackOptions to the device and to each of its engines.
struct EngineSettings {
  uint32_t max_qp = 16384;                                    ///< per device
  uint32_t max_mr = 65536;                                    ///< per device
  Retransmission retransmission = Retransmission::automatic;  ///< for RC queue pairs that do not choose
  CongestionSettings congestion{};                            ///< algorithm for those, and parameters for all
  uint32_t udp_source_ports = 1;   ///< UDP source ports over which an RC queue pair's packets are sprayed, 1..64
  uint32_t parking_frames = 1024;  ///< most out-of-order frames kept, per engine and device, 0..65535
};

}  // namespace uroce
