// A receive rule as programs hold it.
#pragma once

#include <deque>
#include <vector>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

struct VerbsCounters;

struct VerbsFlow : ibv_flow {
  VerbsFlow(VerbsQp* qp, Flow made) : ibv_flow{}, ref(qp->qp_base.context), api(std::move(made)), of_qp(&qp->flows) {
    context = qp->qp_base.context;
    handle = ref->shared->next_handle++;
    live.begin(ObjectKind::flow, this, handle, context);
  }
  ContextRef ref;
  Flow api;
  UseOf of_qp;
  std::vector<VerbsCounters*> counters;  ///< that count this rule
  std::deque<UseOf> of_counters;
  Live live;
};

}  // namespace uroce::dropin
