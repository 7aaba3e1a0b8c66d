// Hands received frames to the engines that they are for: that of the queue pair, all for multicast, and those whose
// receive rules or sniffers want them.
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "base/counter.h"
#include "base/time.h"
#include "pmd_glue/handover.h"
#include "transport/engine/engine.h"

namespace uroce::glue {

struct SteeringCounters {
  Counter steered;  ///< frames handed over to another engine
  Counter lost;     ///< because that engine was too far behind
};

/// Belongs to the port queue that received the frames, and to its thread.
class Steering {
 public:
  /// Both outlive it.
  Steering(Handover& handover, transport::Engine& engine)
      : handover_(handover), engine_(engine), index_(engine.config().index) {}

  /// Gives `engine` the caller's reference to a frame.
  void give(rte_mbuf* mbuf, uint32_t engine, Handover::For why = Handover::For::queue_pair) {
    counters_.steered.add();
    if (handover_.put(engine, mbuf, why)) return;
    counters_.lost.add();
    rte_pktmbuf_free(mbuf);
  }
  /// Gives every other engine a reference to a multicast frame.
  void give_others(rte_mbuf* mbuf);
  /// Gives a frame to the receive rules that want it, on each of their engines. The caller still has its reference.
  /// False: no rule takes it. A sniffer's copy does not count.
  bool offer_to_rules(rte_mbuf* mbuf, Nanos now);
  const SteeringCounters& counters() const { return counters_; }

 private:
  Handover& handover_;
  transport::Engine& engine_;
  const uint32_t index_;
  SteeringCounters counters_;
};

}  // namespace uroce::glue
