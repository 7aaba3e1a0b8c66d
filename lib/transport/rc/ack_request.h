// When a requester asks for an ACK.
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// At least one packet in so many asks for an ACK. A small window has several ACK requests as well.
inline constexpr uint32_t kAckRequestInterval = 16;

/// Counts a packet. Returns whether it must ask for an ACK even if it ends no message.
inline bool ack_request_is_due(const Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  if (++tx.since_ack_request >= std::clamp(tx.window / 4, 1u, kAckRequestInterval)) return true;
  // A slow sender asks by time as well, or its probe timer would end before the next ACK.
  return qp.selective && ctx.now - tx.recovery->ack_asked_at > tx.recovery->loss.rtt().smoothed() / 2;
}

inline void note_ack_request(const Context& ctx, Qp& qp) {
  qp.tx.since_ack_request = 0;
  qp.tx.recovery->ack_asked_at = ctx.now;
}

}  // namespace uroce::transport
