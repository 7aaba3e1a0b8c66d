// When a requester asks for an ACK (IBTA vol. 1, 9.7.5.1.2).
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// An ACK is asked for at least this often within a stream of packets, and several times within a window.
inline constexpr uint32_t kAckRequestInterval = 16;

/// Counts a packet. Is an ACK due though nothing about the packet itself asks for one?
inline bool ack_request_is_due(const Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  if (++tx.since_ack_request >= std::clamp(tx.window / 4, 1u, kAckRequestInterval)) return true;
  // A slow sender must hear from its peer before it takes packets for lost.
  return qp.selective && ctx.now - tx.recovery->ack_asked_at > tx.recovery->loss.rtt().smoothed() / 2;
}

inline void note_ack_request(const Context& ctx, Qp& qp) {
  qp.tx.since_ack_request = 0;
  qp.tx.recovery->ack_asked_at = ctx.now;
}

}  // namespace uroce::transport
