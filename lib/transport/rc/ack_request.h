// When a requester asks for an ACK.
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// At least one packet in so many asks for an ACK. A small window has several ACK requests as well:
/// ack_request_interval().
inline constexpr uint32_t kAckRequestInterval = 16;

/// At least one packet in so many, with the present window.
inline uint32_t ack_request_interval(const Qp& qp) { return std::clamp(qp.tx.window / 4, 1u, kAckRequestInterval); }

/// Counts a packet. Returns whether it must ask for an ACK even if it ends no message. `interval`:
/// ack_request_interval().
inline bool ack_request_is_due(const Context& ctx, Qp& qp, uint32_t interval) {
  auto& tx = qp.tx;
  if (++tx.since_ack_request >= interval) return true;
  // A slow sender asks by time as well, or its probe timer would end before the next ACK.
  return qp.selective && ctx.now - tx.recovery->ack_asked_at > tx.recovery->loss.rtt().smoothed() / 2;
}

inline void note_ack_request(const Context& ctx, Qp& qp) {
  qp.tx.since_ack_request = 0;
  qp.tx.recovery->ack_asked_at = ctx.now;
}

}  // namespace uroce::transport
