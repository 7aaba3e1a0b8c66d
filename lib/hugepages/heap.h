// The main thread's heap (malloc(3)).
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace uroce::hugepages {

/// Memory that the heap gets from the kernel ahead, in transparent huge pages where there are some (madvise(2)): small
/// objects are made without page faults. The rest goes back at its end. One at a time, by the main thread.
class HeapReserve {
 public:
  /// Fetches `bytes`, at most 256 MiB; as much again is huge pages once it is touched. Does nothing where the heap is
  /// not the C library's own.
  explicit HeapReserve(uint64_t bytes);
  ~HeapReserve();
  HeapReserve(const HeapReserve&) = delete;
  HeapReserve& operator=(const HeapReserve&) = delete;
};

/// Anonymous memory that a process holds, in bytes; 0 if /proc does not tell (proc_pid_statm(5)).
uint64_t anonymous_bytes(pid_t process);
/// By how much that is more than `base`; 0 if it is not.
uint64_t anonymous_bytes_beyond(uint64_t base, pid_t process);

}  // namespace uroce::hugepages
