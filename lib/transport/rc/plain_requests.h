// The requester's shortcut for plain requests: WRITEs without immediate data, of one packet and one entry in memory,
// without fence and inline data.
//
// It is the general way (rc/requester.h) without the branches that other requests need: the same checks, frames and
// state.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/work_queue.h"

namespace uroce::transport {

/// Is a WRITE, which may be plain, the next work request to be fetched? Nothing depends on the answer but the way that
/// it goes: shared memory is read again, and checked, there.
inline bool write_is_next(Qp& qp) {
  const auto& sq = qp.tx.sq;
  if (qp.tx.cursor.index() != sq.next() || !has_posted(qp)) return false;
  return load8(sq.slot() + offsetof(queues::SendWqe, opcode)) == static_cast<uint8_t>(WrOpcode::rdma_write);
}

/// Sends plain requests from the send queue, in order, while room, window and peer allow it. It stops before the first
/// work request that is not plain, or is wrong in any way, and leaves it as it is; then the general way goes on.
Outcome transmit_plain_requests(Context& ctx, Qp& qp);

}  // namespace uroce::transport
