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

/// Returns once that thread has nothing left to do and waits. EAL's memory may go after it, once per process: the
/// thread lives on, and would read the handles of its sources there whenever it made its list of them anew.
void settle_interrupt_thread();

}  // namespace uroce::glue
