// Work that must not run beside a driver's own interrupt handlers.
//
// net_memif takes a connection down on EAL's interrupt thread when the peer hangs up, and on the caller's thread when
// the port is stopped. There is no lock between the two (DPDK 22.11). On the interrupt thread they run one after the
// other.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

namespace uroce::glue {

/// Longer than any driver's handler takes, unless it hangs.
inline constexpr std::chrono::seconds kInterruptTimeout{5};

/// Runs `work` on EAL's interrupt thread and returns its result. Do not call it on that thread. The result is empty
/// when a handler blocks the thread for longer than `timeout`. Work that has not begun by then never runs, but work
/// that has begun goes on. So `work` must own everything it uses.
std::optional<int> on_interrupt_thread(std::function<int()> work, std::chrono::nanoseconds timeout = kInterruptTimeout);

/// Stops the interrupt thread for good and returns when it stands still. Call it before rte_eal_cleanup(), which makes
/// the thread read the handles of its sources, net_memif's among them, and then unmaps the memory that holds them.
/// False when the thread does not stop within a second: it is stuck in a driver, whose memory must stay.
bool park_interrupt_thread();

}  // namespace uroce::glue
