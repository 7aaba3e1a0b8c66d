// The connection manager's timeouts: the code of the wire, our limits and defaults. repeating.h has the timers.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::cm {

/// The time of a timeout code: 4.096 us * 2^code (IBTA vol. 1, 12.7.11).
constexpr Nanos cm_time(uint8_t code) { return Nanos(int64_t{4096} << code); }

/// Limits on a peer's timeout codes, so that a peer cannot hold a record for hours. Larger codes count as these.
inline constexpr uint8_t kMaxPeerTimeout = 21;  ///< 8.6 s; rdma_cm sends 20
inline constexpr uint8_t kMaxMraTimeout = 25;   ///< 137 s; rdma_cm sends 24
/// The time that an MRA asks for while the application has not answered: 68.7 s, as in Linux's rdma_cm.
inline constexpr uint8_t kMraTimeout = 24;
/// For paths without an ACK timeout (0 is "none").
inline constexpr uint8_t kUsualAckTimeout = 18;
/// Time-wait lasts two packet lifetimes (IBTA vol. 1, 12.9.8.4), and where the REQ gives the path less, those of
/// Linux's rdma_cm: 2.1 s. Programs linger for up to a second after `disconnected`, and expect nothing until they
/// destroy the id.
inline constexpr uint8_t kLeastTimeWait = 19;
/// How long a SIDR_REP is kept to answer repeated requests. A SIDR_REQ does not carry its timeout; rdma_cm repeats it
/// every 4.3 s.
inline constexpr uint8_t kSidrLinger = 21;

/// A connection that seems stale is probed this often. A path that is dead for so long (21 s with rdma_cm's timeouts)
/// would have ended a connection with traffic anyhow.
inline constexpr uint8_t kProbeRepetitions = 3;
/// The time from an answered probe to the next: 4.3 s, so that a flood of forged REQs makes no flood of REPs.
inline constexpr uint8_t kProbeRest = 20;

}  // namespace uroce::cm
