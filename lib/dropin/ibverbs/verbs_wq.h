// A receive work queue as programs hold it: a raw packet queue pair that only receives. Rules reach it through an
// indirection table (rss.h).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

struct VerbsWq : ibv_wq {
  using Public = ibv_wq;
  static constexpr ObjectMemory kMemory = ObjectMemory::wq;
  VerbsWq(VerbsPd* domain, VerbsCq* completes_on, QueuePair made)
      : ibv_wq{},
        ref(domain->context),
        api(std::move(made)),
        lock(domain->shared_by_threads()),
        of_pd(&domain->users),
        of_cq(&completes_on->users) {}
  ContextRef ref;
  QueuePair api;
  Spinlock lock;
  UseOf of_pd, of_cq;
  Placement placement;
  Users users;  ///< indirection tables
  uint32_t events_delivered = 0;
  Live live;
};

inline VerbsWq* of(ibv_wq* wq) { return static_cast<VerbsWq*>(wq); }

}  // namespace uroce::dropin
