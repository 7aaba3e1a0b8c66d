// A driver burst that survives its peer.
//
// net_memif unmaps the memory it shares with a peer on EAL's interrupt thread as soon as the peer's socket closes,
// while this thread may be copying from it (DPDK 22.11, memif_disconnect). The fault then ends the burst, not the
// process.
#pragma once

#include <csetjmp>

namespace uroce::glue {

/// Installs the handlers of SIGSEGV and SIGBUS, once; faults outside a guard go to the handler that was there before.
void install_fault_guard();

namespace detail {
extern thread_local sigjmp_buf* fault_guard;
}

/// Calls `burst`, C code that holds no C++ object. False when it faulted. install_fault_guard() comes first.
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
