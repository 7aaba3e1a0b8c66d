// The requester's shortcut for plain requests: WRITEs and SENDs without immediate data, of one packet and one entry in
// memory, without fence and inline data, and SENDs that are not solicited.
//
// It is the general way (rc/requester.h) without the branches that other requests need: the same checks, frames and
// state.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/wr_opcodes.h"
#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/work_queue.h"

namespace uroce::transport {

inline bool is_plain_opcode(WrOpcode opcode) { return opcode == WrOpcode::rdma_write || opcode == WrOpcode::send; }

/// The shortcut that may take an operation: this one, or that for READs and atomics (rc/plain_reads.h).
enum class PlainNext : uint8_t { none, data, read };
inline PlainNext plain_kind(WrOpcode opcode) {
  if (is_plain_opcode(opcode)) return PlainNext::data;
  return is_read_or_atomic(opcode) ? PlainNext::read : PlainNext::none;
}
/// The shortcut that may take the next work request to be fetched. Nothing depends on the answer but the way that it
/// goes: shared memory is read again, and checked, there.
inline PlainNext plain_next(Qp& qp) {
  const auto& sq = qp.tx.sq;
  if (qp.tx.cursor.index() != sq.next() || !has_posted(qp)) return PlainNext::none;
  return plain_kind(static_cast<WrOpcode>(load8(sq.slot() + offsetof(queues::SendWqe, opcode))));
}

/// Sends plain requests from the send queue, in order, while room, window and peer allow it. It stops before the first
/// work request that is not plain, or is wrong in any way, and leaves it as it is; then the general way goes on.
Outcome transmit_plain_requests(Context& ctx, Qp& qp);

}  // namespace uroce::transport
