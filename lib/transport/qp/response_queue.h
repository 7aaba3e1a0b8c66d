// The packets that a responder owes its peer: the responses to READs, atomics, FLUSHes and ATOMIC WRITEs in the order
// of their requests, and behind them the newest ACK or NAK (IBTA vol. 1, 9.7.5.1).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "transport/qp/outcome.h"
#include "transport/qp/replay_store.h"
#include "wire/headers.h"

namespace uroce::transport {

/// Each packet and each turn touch this, so it stands apart from the responses. They are in `store`, the ReplayStore of
/// the same QP.
class ResponseQueue {
 public:
  // --- The reply --------------------------------------------------------------------------------------------------

  /// Queues an ACK or NAK for `psn`, to be sent after the responses queued so far. Only the newest one is kept, because
  /// it acknowledges everything before it (C9-105). Wakes the QP unless the pending reply covers this ACK already.
  Outcome queue_reply(Psn psn, uint8_t syndrome) {
    const bool is_ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
    if (is_ack && reply_pending_ && distance(psn, reply_psn_) < 0) return {};
    reply_psn_ = psn;
    syndrome_ = syndrome;
    reply_pending_ = true;
    return Outcome::wake();
  }
  Outcome queue_ack(Psn psn) { return queue_reply(psn, wire::Aeth::ack(0)); }
  /// As queue_reply(), for a sequence or RNR NAK: packets behind it are out of order until `psn` arrives.
  Outcome queue_gap_nak(Psn psn, uint8_t syndrome) {
    gap_told_ = true;
    return queue_reply(psn, syndrome);
  }
  /// A NAK covers the gap: the packets behind it get none of their own.
  bool gap_told() const { return gap_told_; }
  void close_gap() { gap_told_ = false; }

  bool reply_pending() const { return reply_pending_; }
  Psn reply_psn() const { return reply_psn_; }
  uint8_t syndrome() const { return syndrome_; }
  wire::NakCode nak_code() const { return static_cast<wire::NakCode>(wire::Aeth{syndrome_, 0}.code()); }
  wire::AethKind reply_kind() const { return wire::Aeth{syndrome_, 0}.kind(); }
  void on_reply_sent() { reply_pending_ = false; }

  // --- Responses --------------------------------------------------------------------------------------------------

  bool has_jobs() const { return has_jobs_; }
  /// Queues packets [next, end) of a response.
  void push(ReplayStore& store, const Resource& resource, uint32_t next, uint32_t end, bool original) {
    store.push_job(resource, next, end, original);
    has_jobs_ = true;
  }
  void pop(ReplayStore& store) {
    store.pop_job();
    has_jobs_ = store.has_jobs();
  }
  /// Neither a response nor a reply is due.
  bool empty() const { return !(reply_pending_ || has_jobs_); }
  /// A reply is pending, and no response stands before it.
  bool reply_is_next() const { return reply_pending_ && !has_jobs_; }
  /// The response to a request that was just executed. There is always room for it.
  void queue_response(ReplayStore& store, const Resource& resource) {
    push(store, resource, 0, resource.packets, true);
  }
  /// Queues packets [next, end) of the response to a duplicate, or extends a job that is queued for it already. False:
  /// nothing was added.
  bool queue_again(ReplayStore& store, const Resource& resource, uint32_t next, uint32_t end);
  /// The oldest job; nullptr: there is none. Drops those that were given up.
  ResponseJob* next_job(ReplayStore& store) {
    while (has_jobs_) {
      ResponseJob& job = store.front_job();
      if (job.resource != ResponseJob::kVoid) return &job;
      pop(store);
    }
    return nullptr;
  }
  /// The job from next_job(), for `resource`, has been sent in full.
  void finish_job(ReplayStore& store, const ResponseJob& job, Resource& resource) {
    if (job.original) resource.busy = false;
    pop(store);
  }
  void drop_jobs(ReplayStore& store) {
    store.drop_jobs();
    has_jobs_ = false;
  }
  /// Room for `resources` READs and atomics. Forgets what was there.
  void resize(ReplayStore& store, uint32_t resources) {
    store.resize(resources);
    has_jobs_ = false;
  }
  void clear(ReplayStore& store) {
    store.clear();
    has_jobs_ = false;
  }
  /// `store` was read from a snapshot.
  void adopt(const ReplayStore& store) { has_jobs_ = store.has_jobs(); }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [psn, code, pending, gap, jobs] = *this;
    archive("reply_psn", psn);
    archive("syndrome", code);
    archive("reply_pending", pending);
    archive("gap_told", gap);
    static_cast<void>(jobs);  // adopt() finds it.
  }

 private:
  Psn reply_psn_{};
  uint8_t syndrome_ = 0;
  bool reply_pending_ = false;
  bool gap_told_ = false;
  bool has_jobs_ = false;  // ReplayStore::has_jobs()
};
static_assert(sizeof(ResponseQueue) == 8, "it shares a cache line with what both roles read");

inline bool ResponseQueue::queue_again(ReplayStore& store, const Resource& resource, uint32_t next, uint32_t end) {
  const uint32_t index = store.index_of(resource);
  const bool covered = store.find_job([&](ResponseJob& job) {
    if (job.resource != index) return false;
    // The packets asked for have all been sent, so they need a job of their own.
    if (!resource.atomic && end <= job.next) return false;
    // A job that has not come to `next` yet, and goes on to `end`, covers the duplicate. Otherwise it begins at `next`.
    if (!resource.atomic && (job.next > next || job.end < end)) {
      job.next = next;
      job.end = std::max(job.end, end);
      job.at_start = true;
    }
    return true;
  });
  if (covered || !store.has_room_for_duplicate()) return false;
  push(store, resource, next, end, false);
  return true;
}

}  // namespace uroce::transport
