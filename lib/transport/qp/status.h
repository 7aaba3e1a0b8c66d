// The state of one queue pair's congestion control and loss recovery, for operators.
#pragma once

#include <cstdint>

#include <uroce/types.h>

#include "base/time.h"

namespace uroce::transport {

struct QpTransportStatus {
  CongestionAlgorithm congestion = CongestionAlgorithm::none;
  uint64_t rate_bps = 0;  ///< bits per second, headers and all; 0: as fast as the port takes it
  uint32_t window = 0;    ///< packets that may be in flight
  uint64_t cnps_sent = 0;
  uint64_t cnps_received = 0;
  uint32_t path_changes = 0;
  Retransmission recovery = Retransmission::go_back_n;  ///< with this peer; automatic: discovery goes on
  Nanos srtt{0};                                        ///< smoothed round-trip time; 0: not known
  struct Retransmitted {
    uint64_t fast = 0;        ///< a SACK or a later response showed the loss
    uint64_t probe = 0;       ///< after a silence shorter than a timeout
    uint64_t timeout = 0;     ///< after a timeout
    uint64_t nak = 0;         ///< after a NAK
  } retransmitted{};          ///< packets, by cause
  uint32_t parked = 0;        ///< requests in the reorder buffer
  uint32_t sends_posted = 0;  ///< work requests without a completion yet
  uint32_t recvs_posted = 0;  ///< without those of a shared receive queue
  uint32_t in_flight = 0;     ///< packets sent and not acknowledged
  uint8_t retries_left = 0, rnr_retries_left = 0;
  Nanos timer = kNever;  ///< until the ACK timeout or the end of the RNR wait; kNever: neither runs
};

}  // namespace uroce::transport
