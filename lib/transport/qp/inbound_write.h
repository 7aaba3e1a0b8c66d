// The packets of an inbound WRITE: their payload against RETH and path MTU, and where it goes.
#pragma once

#include <cstring>
#include <span>

#include "transport/core/context.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// IBTA vol. 1, 9.7.4.1.6: full packets within a message, 1 to PMTU bytes at its end, 0 to PMTU in an Only. The same
/// holds for SENDs.
inline bool payload_fits_mtu(const Qp& qp, wire::OpFlags op, std::size_t payload) {
  if (!op.has(wire::Op::last)) return payload == qp.mtu();
  return payload <= qp.mtu() && (op.has(wire::Op::first) || payload > 0);
}

enum class WriteTarget { ok, too_long, no_access };
/// The first packet of a WRITE names the whole target, which is checked before a byte is placed (9.7.4.1.5). `place`
/// gets its translation.
inline WriteTarget begin_write(const Context& ctx, Qp& qp, const wire::Reth& reth, memory::Translation& place) {
  if (reth.length > kMaxMessage) return WriteTarget::too_long;
  place = translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_write);
  if (place.result != memory::AccessResult::ok) return WriteTarget::no_access;
  qp.rx.message.begin_write(reth);
  return WriteTarget::ok;
}
/// Where the `length` bytes of this packet go. It is looked up for every packet, because the region may have gone since
/// the first. An Only carries the whole target, whose translation `whole` from begin_write() has just been made.
inline memory::Translation next_write_place(const Context& ctx, const Qp& qp, wire::OpFlags op, uint32_t length,
                                            const memory::Translation& whole) {
  if (op.has(wire::Op::first) && op.has(wire::Op::last)) return whole;
  const InboundMessage& message = qp.rx.message;
  return translate(ctx, qp, message.rkey(), message.write_va(), length, Access::remote_write);
}
/// Places the payload, which a frame of this process may have in the same memory. `place`: from next_write_place().
inline void place_write(const memory::Translation& place, std::span<const std::byte> payload) {
  if (!payload.empty()) std::memmove(place.host, payload.data(), payload.size());
}

}  // namespace uroce::transport
