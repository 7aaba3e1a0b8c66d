// Duplicate detection at the responder: nothing is executed twice (IBTA vol. 1, 9.7.5.1.2).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Where a request's PSN stands (9.7.4.1.2).
enum class Turn { next, ahead, duplicate };
inline Turn turn_of(const Qp& qp, Psn psn) {
  const int32_t ahead = distance(psn, qp.rx.expected);
  return ahead == 0 ? Turn::next : ahead > 0 ? Turn::ahead : Turn::duplicate;
}

/// Is the request answered with a packet of its own, a READ response or an atomic ACK?
inline bool is_answered(const wire::Packet& packet) {
  return packet.op().flags.has_any(wire::Op::read | wire::Op::atomic | wire::Op::flush | wire::Op::atomic_write);
}

/// A request whose PSN was executed before: it is acknowledged again, or its response is sent again.
Outcome on_duplicate(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
