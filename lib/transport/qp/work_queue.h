// The engine's side of the send queue: copies work requests in, validates the copies, and completes them in order.
#pragma once

#include <optional>

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Copies the next WQE into its slot and validates the copy. False: there is none, or no slot is free.
bool fetch_wqe(const Context& ctx, Qp& qp);
/// Is a work request posted that was not fetched? Shared memory is not read before a doorbell has rung: with thousands
/// of queue pairs that line is in no cache, and most turns are for an ACK alone.
inline bool has_posted(Qp& qp) {
  if (!qp.rung) return false;
  qp.rung = qp.tx.sq.available() != 0;
  return qp.rung;
}
/// The opcode of the only work request that is posted and was not fetched; nullopt when there is not exactly one.
inline std::optional<WrOpcode> lone_posted(Qp& qp) {
  if (!has_posted(qp) || qp.tx.sq.available() != 1) return std::nullopt;
  return static_cast<WrOpcode>(reinterpret_cast<const queues::SendWqe*>(qp.tx.sq.slot())->opcode);
}
/// Can the QP have requests to send? If not, it needs no turn: the doorbell of the next work request brings it back.
inline bool has_unsent(Qp& qp) {
  const auto& tx = qp.tx;
  return tx.lost.any() || tx.cursor.index() != tx.sq.next() || has_posted(qp);
}
/// Completes the oldest WQE. Errors are always reported, success where signaled.
Outcome complete_oldest(Context& ctx, Qp& qp, WcStatus status);
/// Returns the slots of completed WQEs to the application.
inline void publish_completed(Qp& qp) { qp.tx.sq.mirror(qp.tx.oldest); }
/// Flushes the oldest `count` WQEs: those that have been fetched, then those that have only been posted.
Outcome flush_sends(Context& ctx, Qp& qp, uint32_t count);
/// Reports sq_drained once the QP is in SQD and nothing is outstanding.
inline void check_drained(Context& ctx, Qp& qp);
void report_drained(Context& ctx, Qp& qp);  // the rare part of check_drained()
inline void check_drained(Context& ctx, Qp& qp) {
  if (qp.state == QpState::sqd) [[unlikely]]
    report_drained(ctx, qp);
}

/// Finds the started request that `psn` belongs to. The search begins at SQ index `index`, which moves to the request.
/// Nullptr: there is none.
SendSlot* find_request(Qp& qp, Psn psn, uint32_t& index);
/// Returns the requests that have PSNs, one per call, oldest first. Loss detection uses it.
class StartedRequests {
 public:
  explicit StartedRequests(const Qp& qp) : qp_(qp), index_(qp.tx.oldest) {}
  std::optional<RequestSpan> operator()() {
    if (index_ == qp_.tx.sq.next() || !qp_.slot(index_).started) return std::nullopt;
    return qp_.slot(index_++).span();
  }

 private:
  const Qp& qp_;
  uint32_t index_;
};
/// Sending resumes at `psn`, which lies in [una, sent). The caller wakes the QP.
void rewind_to(Qp& qp, Psn psn);

}  // namespace uroce::transport
