// Work that must not run beside a driver's own interrupt handlers.
//
// net_memif takes a connection down on EAL's interrupt thread when the peer hangs up, and on the caller's when the
// port is stopped, without a lock between the two (DPDK 22.11). On the interrupt thread they take turns.
#pragma once

#include <rte_alarm.h>

#include <latch>
#include <utility>

namespace uroce::glue {

/// Runs `work` on EAL's interrupt thread and returns when it has run. Not from that thread itself.
template <class Work>
void on_interrupt_thread(Work work) {
  struct Call {
    Work work;
    std::latch done{1};
  } call{std::move(work)};
  const auto run = [](void* argument) {
    auto* own = static_cast<Call*>(argument);
    own->work();
    own->done.count_down();
  };
  if (rte_eal_alarm_set(1, run, &call) == 0) {
    call.done.wait();
  } else {
    call.work();
  }
}

/// Ends that thread's work for good; returns when it is held. Comes before rte_eal_cleanup(), which unmaps EAL's
/// memory right after it has made the thread read the handles of its sources there, net_memif's among them.
void park_interrupt_thread();

}  // namespace uroce::glue
