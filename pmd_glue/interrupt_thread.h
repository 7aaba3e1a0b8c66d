// Work that must not run beside a driver's own interrupt handlers.
//
// net_memif takes a connection down on EAL's interrupt thread when the peer hangs up, and on the caller's when the
// port is stopped, without a lock between the two (DPDK 22.11). On the interrupt thread they take turns.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace uroce::glue {

/// Longer than any driver's handler takes that ends at all.
inline constexpr std::chrono::seconds kInterruptTimeout{5};

/// Runs `work` on EAL's interrupt thread and returns what it returned. Not from that thread itself. Empty when the
/// thread, stuck in some handler, has not finished it within `timeout`: work that has not begun by then never will,
/// but work that has begun goes on. So `work` owns what it uses: it refers to nothing that may go when this returns.
std::optional<int> on_interrupt_thread(std::function<int()> work, std::chrono::nanoseconds timeout = kInterruptTimeout);

/// Ends that thread's work for good; returns when it is held. Comes before rte_eal_cleanup(), which unmaps EAL's
/// memory right after it has made the thread read the handles of its sources there, net_memif's among them.
/// False when the thread does not come within a second: it is stuck in a driver, whose memory must stay.
bool park_interrupt_thread();

}  // namespace uroce::glue
