// With thousands of queue pairs, what a message needs is in no cache. A burst asks for all of it before it handles the
// first: the misses overlap, and each stage follows the pointers that the one before has fetched.
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

/// First stage: the hot state.
inline void prefetch_state(const Qp& qp) {
  __builtin_prefetch(&qp);
  __builtin_prefetch(&qp.tx, 1);
  __builtin_prefetch(&qp.tx.window, 1);
  __builtin_prefetch(&qp.rx, 1);
}

/// Second stage of a doorbell: what the QP's turn reads and writes.
inline void prefetch_turn(const Qp& qp) {
  const queues::RingConsumer& sq = qp.tx.sq;
  __builtin_prefetch(qp.tx.doorbell, 1);
  __builtin_prefetch(sq.producer_line());
  __builtin_prefetch(sq.slot());
  __builtin_prefetch(sq.slot() + sizeof(queues::SendWqe));
  const SendSlot& slot = qp.slot(sq.next());
  __builtin_prefetch(&slot, 1);
  __builtin_prefetch(&slot + 1, 1);
  __builtin_prefetch(&qp.cold->previous_in_run_queue, 1);
  __builtin_prefetch(qp.tx.recovery, 1);
}

/// Second stage of a received packet.
inline void prefetch_handling(const Qp& qp, const wire::Packet& packet) {
  if (packet.op().flags.has(wire::Op::request)) return __builtin_prefetch(qp.rx.rq.producer_line());
  __builtin_prefetch(&qp.slot(qp.tx.oldest));
  __builtin_prefetch(qp.tx.recovery, 1);
}

}  // namespace uroce::transport
