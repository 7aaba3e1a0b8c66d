// Threads in pthread_join(3) that wait for a thread whose control block lies in pages that are replaced.
//
// The kernel wakes them through a futex that is not private (CLONE_CHILD_CLEARTID). It identifies such a futex by its
// mapping: by the address in private pages, by the file and offset in shared ones. A thread that began to wait before
// the pages were replaced would never wake. ThreadStop makes it begin anew; the calls here serve where ptrace(2) is not
// permitted. The only other such futexes are those of PTHREAD_PROCESS_SHARED objects in
// private memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::sharing {

/// At least the size of glibc's struct pthread.
constexpr std::size_t kThreadBlockBytes = 2560;

/// The first thread control block, of a running or ended thread, that starts in [from, end); `end` when there is none.
/// `whole`: bytes of what is searched in pieces. Other threads may unmap a little memory just then. The search of much
/// memory, which must be readable, has to be fast.
uintptr_t find_thread_block(uintptr_t from, uintptr_t end, std::size_t whole);

/// Whether the kernel may store into [first, end) for a thread: into its control block, or into its rseq(2) area. Reads
/// the range and the bytes around it.
bool thread_block_reaches(uintptr_t first, uintptr_t end);

/// The same, by asking the threads. `tasks`: a descriptor of /proc/self/task. nullopt where they do not tell: one is
/// about to end, or is not of the C library.
std::optional<bool> thread_reaches(int tasks, uintptr_t first, uintptr_t end);

/// Requeues waiting threads to `staging`, a shared mapping that is about to replace the pages at `at`. `below`: also
/// for a block that starts below them. Stores only on the stack and takes no lock (page_syscall.h).
void move_joiners(uintptr_t at, std::size_t length, uintptr_t staging, bool below);

/// Wakes waiting threads, which then check again. The new pages are in place.
void wake_joiners(uintptr_t at, std::size_t length);

}  // namespace uroce::sharing
