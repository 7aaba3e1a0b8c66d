// A guard for driver bursts whose shared memory can vanish.
//
// When a peer's socket closes, net_memif unmaps the memory that it shares with the peer, on EAL's interrupt thread.
// This thread may be copying from it at that moment (DPDK 22.11, memif_disconnect). The fault then ends the burst, not
// the process.
//
// A burst may also read memory of clients. service::FaultWatch repairs that: its handler is installed with the first
// client, later than this one, and so runs first.
#pragma once

#include <csetjmp>

namespace uroce::glue {

/// Installs the handlers of SIGSEGV and SIGBUS once. Faults outside a guard go to the earlier handler.
void install_fault_guard();

namespace detail {
extern thread_local sigjmp_buf* fault_guard;
}

/// Calls `burst`, C code that holds no C++ object. False when it faulted. Call install_fault_guard() before.
template <class Burst>
[[gnu::noinline]] bool guarded(Burst&& burst) {
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    detail::fault_guard = nullptr;
    return false;
  }
  detail::fault_guard = &here;
  burst();
  detail::fault_guard = nullptr;
  return true;
}

}  // namespace uroce::glue
