// The responder's shortcut for plain WRITEs (wire/plain_packet.h): the general way (rc/responder.h) without the
// branches that other requests need.
#pragma once

#include <cstring>

#include "transport/core/context.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/rc/responder.h"
#include "transport/rc/sack.h"

namespace uroce::transport {

/// Executes a plain WRITE that is in order. The QP is in RTS; it is in hand once its payload is there. False: nothing
/// has been done, and the general way finds what is different or wrong.
template <Steps kSteps>
inline bool execute_plain_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::Reth& reth = packet.reth;
  if (packet.bth.psn != rx.expected) return false;
  if (!rx.message.idle()) return false;
  if (reth.length != packet.payload.size() || reth.length > qp.mtu()) return false;
  if (!qp.access.has(Access::remote_write)) return false;
  const auto place = translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_write);
  if (place.result != memory::AccessResult::ok) return false;
  // A frame of this process may have its payload in the same memory.
  if (reth.length > 0) std::memmove(place.host, packet.payload.data(), reth.length);
  ctx.hand.take<kSteps>(qp);
  rx.count_message();
  qp.expect_next(1);
  return true;
}

/// Queues the ACK that a plain WRITE, or a packet in the middle of a message, asks for.
inline Outcome acknowledge_plain(const Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (!packet.bth.ack_request) return {};
  if (qp.selective) note_arrival(ctx, qp, packet, false);
  return qp.responses.queue_ack(packet.bth.psn);
}

/// As on_request(), for a plain WRITE. The QP is in RTS, and not in hand yet.
template <Steps kSteps>
inline Outcome on_plain_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (!execute_plain_write<kSteps>(ctx, qp, packet)) [[unlikely]] {
    ctx.hand.take(qp);
    return on_request(ctx, qp, packet);
  }
  return acknowledge_plain(ctx, qp, packet);
}

}  // namespace uroce::transport
