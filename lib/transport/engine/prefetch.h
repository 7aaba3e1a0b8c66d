// With thousands of queue pairs, the state of a message is in no cache. A burst asks for all of it before it handles
// the first: the misses overlap, and each stage follows the pointers that the one before has fetched.
#pragma once

#include <cstddef>

#include "transport/qp/qp.h"
#include "wire/packet.h"

namespace uroce::transport {

/// The empty statement is an effect: gcc leaves out calls of functions that do nothing but prefetch.
inline void prefetch(const void* at) {
  __builtin_prefetch(at, 1);
  asm volatile("");
}

/// First stage of a doorbell: the hot state of a requester.
inline void prefetch_requester(const Qp& qp) {
  prefetch(&qp);
  prefetch(&qp.tx);
  prefetch(&qp.tx.slots);
}

/// First stage of a received packet: all of the hot state.
inline void prefetch_state(const Qp& qp) {
  prefetch_requester(qp);
  prefetch(&qp.rx);
}

/// Loss recovery: departures of a few packets, the round-trip time, the silence timer.
inline void prefetch_recovery(const Qp& qp) {
  const Recovery* const r = qp.tx.recovery;
  if (r == nullptr) return;
  prefetch(r);
  const auto* const loss = reinterpret_cast<const std::byte*>(&r->loss);
  for (std::size_t line = 0; line < LossDetector::kHotBytes; line += 64) prefetch(loss + line);
  if (!qp.selective) prefetch(&r->discovery);
}

/// Second stage of a doorbell: what the QP's turn reads and writes.
inline void prefetch_turn(const Qp& qp) {
  const queues::RingConsumer& sq = qp.tx.sq;
  if (sq.entries() == 0) return;  // an XRC target
  prefetch(qp.tx.doorbell);
  prefetch(sq.producer_line());
  prefetch(sq.slot());
  prefetch(sq.slot() + sizeof(queues::SendWqe));
  const SendSlot& slot = qp.slot(sq.next());
  prefetch(&slot);
  prefetch(&qp.cold->wheel_deadline);
  prefetch_recovery(qp);
}

/// Second stage of a received packet.
inline void prefetch_handling(const Qp& qp, const wire::Packet& packet) {
  if (packet.op().flags.has(wire::Op::request)) return prefetch(qp.rx.rq.producer_line());
  if (qp.tx.sq.entries() != 0) prefetch(&qp.slot(qp.tx.oldest));
  prefetch_recovery(qp);
}

}  // namespace uroce::transport
