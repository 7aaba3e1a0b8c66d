// Counters of receive rules (ibv_create_counters(3), ibv_attach_counters_point_flow(3), ibv_read_counters(3)).
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

struct VerbsFlow;

struct VerbsCounters : ibv_counters {
  explicit VerbsCounters(ibv_context* owner) : ibv_counters{}, ref(owner) {
    context = owner;
    live.begin(ObjectKind::counters, this, 0, context);
  }
  /// A rule that a point counts, and what the rule had counted before it was attached.
  struct Source {
    const VerbsFlow* flow;
    FlowCounters before;
  };
  struct Point {
    ibv_counter_description what;
    uint32_t index;
    bool is_static;  ///< counts each rule that is made with these counters, and no other
    std::vector<Source> sources{};
    uint64_t past = 0;  ///< of rules that have gone
  };
  ContextRef ref;
  std::mutex mutex;  ///< guards `points`
  std::vector<Point> points;
  Users flows;
  Live live;
};

inline VerbsCounters* of(ibv_counters* counters) { return static_cast<VerbsCounters*>(counters); }

ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* attr);
int destroy_counters(ibv_counters* counters);
int attach_counters_point_flow(ibv_counters* counters, ibv_counter_attach_attr* attr, ibv_flow* flow);
int read_counters(ibv_counters* counters, uint64_t* values, uint32_t count, uint32_t flags);

/// A rule was just made with `counters`.
void bind_counters(VerbsCounters& counters, VerbsFlow& flow);
/// The rule is about to go. Its points keep what it has counted.
void unbind_counters(VerbsFlow& flow);

}  // namespace uroce::dropin
