// The target of an inbound RDMA WRITE: what its RETH announces against what its packets carry, and against the MTU.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// IBTA vol. 1, 9.7.4.1.6: full packets within a message, 1 to PMTU bytes at its end, 0 to PMTU in an Only.
inline bool payload_fits_mtu(const Qp& qp, wire::OpFlags op, std::size_t payload) {
  if (!op.has(wire::Op::last)) return payload == qp.mtu();
  return payload <= qp.mtu() && (op.has(wire::Op::first) || payload > 0);
}

enum class WriteTarget { ok, too_long, no_access };
/// The first packet of a WRITE names the whole target, which is checked before a byte is placed (9.7.4.1.5).
WriteTarget begin_write(const Context& ctx, Qp& qp, const wire::Reth& reth);
/// 9.7.4.1.6: the packets carry exactly the length that the RETH announced.
inline bool payload_fits_reth(const Qp& qp, wire::OpFlags op, uint32_t length) {
  return op.has(wire::Op::last) ? length == qp.rx.write_left : length < qp.rx.write_left;
}
/// Places the payload. `place`: where next_write_place() said.
void place_write(Qp& qp, const memory::Translation& place, std::span<const std::byte> payload);
/// Where the next `length` bytes go. Looked up for every packet: the region may have gone since the first.
memory::Translation next_write_place(const Context& ctx, const Qp& qp, uint32_t length);

}  // namespace uroce::transport
