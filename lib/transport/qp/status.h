// What the transport does for one queue pair, for operators.
#pragma once

#include <cstdint>

#include <uroce/types.h>

#include "base/time.h"

namespace uroce::transport {

struct QpTransportStatus {
  CongestionAlgorithm congestion = CongestionAlgorithm::none;
  uint64_t rate_bps = 0;  ///< bits per second, headers and all; 0: as fast as the port takes it
  uint32_t window = 0;    ///< packets that may be out
  uint64_t cnps_sent = 0;
  uint64_t cnps_received = 0;
  Retransmission recovery = Retransmission::go_back_n;  ///< with this peer; automatic: it has not been heard yet
  Nanos srtt{0};                                        ///< smoothed round-trip time; 0: not known
  struct Retransmitted {
    uint64_t fast = 0;     ///< overtaken by others
    uint64_t probe = 0;    ///< after a silence shorter than a timeout
    uint64_t timeout = 0;  ///< after one
    uint64_t nak = 0;      ///< asked for
  } retransmitted{};       ///< packets, by cause
  uint32_t parked = 0;     ///< packets that arrived before their turn and are kept
};

}  // namespace uroce::transport
