// Threads that wait in pthread_join(3) for a thread whose block lies in pages that are replaced.
//
// The kernel wakes them with a futex that is not private (CLONE_CHILD_CLEARTID), and knows such a one by the mapping
// that it lies in: memory's place for private pages, the file's for shared ones. Who waited before the pages were
// replaced would never be woken. No other waits are like that, but for objects made PTHREAD_PROCESS_SHARED in private
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::sharing {

/// Not below what struct pthread of glibc has.
constexpr std::size_t kThreadBlockBytes = 2560;

/// The first block of a thread, running or not, that starts in [from, end); else `end`. The range must be readable.
uintptr_t find_thread_block(uintptr_t from, uintptr_t end);

/// Lets them wait at `staging` from now on, a shared mapping that is about to take the place of the pages at `at`.
/// Stores nowhere but on the stack, takes no lock (page_syscall.h).
void move_joiners(uintptr_t at, std::size_t length, uintptr_t staging);

/// Lets them look again, in pages that are in place.
void wake_joiners(uintptr_t at, std::size_t length);

}  // namespace uroce::sharing
