// The completion events that moderation holds back on one engine (ibv_modify_cq(3)).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "queues/cq_poller.h"
#include "queues/layout.h"
#include "transport/core/seam.h"

namespace uroce::transport {

/// The next event of a completion queue.
struct HeldEvent {
  uint32_t cq_id = 0;
  queues::CqHeader* header = nullptr;
  uint32_t completions = 0;  ///< that the event waits with; 0: none waits
  Nanos deadline{0};
  bool listed = false;
  HeldEvent* next = nullptr;

  /// Several engines may see the arming, and the program may withdraw it: one of them takes it.
  void raise(EngineEvents& events) {
    completions = 0;
    if (queues::disarm(*header)) events.on_completion_event(cq_id);
  }
};

/// The events that wait. One leaves the list when its time is over. One thread.
class HeldEvents {
 public:
  void add(HeldEvent& event) {
    if (!event.listed) {
      event.listed = true;
      event.next = first_;
      first_ = &event;
    }
    next_deadline_ = std::min(next_deadline_, event.deadline);
  }
  /// Before the event's owner goes.
  void forget(const HeldEvent& event) {
    for (HeldEvent** at = &first_; *at != nullptr; at = &(*at)->next) {
      if (*at != &event) continue;
      *at = event.next;
      return;
    }
  }
  Nanos next_deadline() const { return next_deadline_; }
  /// Raises the events whose time is over. Costs a comparison while there is none.
  void advance(Nanos now, EngineEvents& events) {
    if (now >= next_deadline_) [[unlikely]]
      raise(now, events);
  }

 private:
  void raise(Nanos now, EngineEvents& events) {
    next_deadline_ = kNever;
    for (HeldEvent** at = &first_; *at != nullptr;) {
      HeldEvent& event = **at;
      if (event.completions != 0 && event.deadline > now) {
        next_deadline_ = std::min(next_deadline_, event.deadline);
        at = &event.next;
        continue;
      }
      *at = event.next;
      event.listed = false;
      if (event.completions != 0) event.raise(events);
    }
  }

  HeldEvent* first_ = nullptr;
  Nanos next_deadline_ = kNever;
};

}  // namespace uroce::transport
