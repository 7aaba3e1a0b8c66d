// XRC at the responder (IBTA vol. 1, annex A14): each request names the shared receive queue that it is for.
//
// A target QP has no queue and no protection domain of its own. A request borrows both from the shared receive queue
// that it names, and returns them afterwards, unless a message in progress still fills one of the queue's receives.
#pragma once

#include <array>
#include <cstdint>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// An engine's XRC shared receive queues, by number. Adding and removing allocate nothing.
class XrcSrqTable {
 public:
  void add(Srq& srq) {
    Srq*& head = bucket(srq.id);
    srq.next_in_table = head;
    head = &srq;
  }
  void remove(const Srq& srq) {
    for (Srq** at = &bucket(srq.id); *at != nullptr; at = &(*at)->next_in_table) {
      if (*at != &srq) continue;
      *at = srq.next_in_table;
      return;
    }
  }
  /// Whether a queue of the XRC domain has this protection domain.
  bool have(uint32_t xrc_domain, memory::PdId pd) const {
    for (const Srq* at : buckets_) {
      for (; at != nullptr; at = at->next_in_table) {
        if (at->xrc_domain == xrc_domain && at->pd == pd) return true;
      }
    }
    return false;
  }
  /// nullptr: there is none.
  Srq* find(uint32_t number) const {
    Srq* at = buckets_[number % kBuckets];
    while (at != nullptr && at->id != number) at = at->next_in_table;
    return at;
  }

 private:
  static constexpr uint32_t kBuckets = 512;  // A device has 4096 shared receive queues at most.
  Srq*& bucket(uint32_t number) { return buckets_[number % kBuckets]; }

  std::array<Srq*, kBuckets> buckets_{};
};

/// Lends `qp` the queue that `packet` names. False: there is none, it is of another XRC domain, or the message in
/// progress is for another queue.
bool borrow_srq(const Context& ctx, Qp& qp, const wire::Packet& packet);
/// Returns the queue, unless one of its receives is in use.
void return_srq(Qp& qp);
/// A receive of `srq` is in use, as it was on another engine, which told of it at `place` (QpCold::held_place). False:
/// another queue pair has that place.
bool resume_srq(Qp& qp, Srq& srq, uint32_t place);
/// A receive of the borrowed queue is in use from now on, or no more.
void hold_srq(Qp& qp);
void let_go_of_srq(Qp& qp);
/// The place in shared memory that tells of the shared queue's receive in use; nullptr: none is told.
queues::HeldRecv* held_place_of(const Qp& qp);
/// The receive in use is forgotten, and the message with it: the queue goes, or the QP does.
void abandon_srq(Qp& qp);

}  // namespace uroce::transport
