// fork() and moved pages. Moved pages are shared mappings, but a child must not store into its parent's memory.
//
// The child copies whole pages of registered ranges while the parent waits. Pages that hold other data too cannot wait
// for that: between clone(2) and the child's handlers the C library stores into the stack, the thread's control block
// and malloc's arenas. So these pages are made private for the time of fork(). Afterwards the bytes that the parent
// changed are written back to the shared pages, one by one, so that bytes written by peers meanwhile stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sharing/mappings.h"
#include "sharing/moved_pages.h"
#include "sharing/page_counts.h"

namespace uroce::sharing {

/// The handlers of pthread_atfork(3) call these in this order, holding the lock of the moved pages.
class ForkCopies {
 public:
  /// `whole`: the addresses that belong to registered ranges alone. With `leave_out` the child does not get them.
  void before(const std::vector<Mapping>& mappings, const MovedPages& pages, const PageCounts& whole, bool leave_out);
  void in_parent();
  /// Does not store into a moved page before the child has its own copy.
  void in_child();

 private:
  struct Run {
    uintptr_t first = 0;
    std::size_t length = 0;
    int protection = 0;
    int fd = -1;  ///< the pages' memfd
    uint64_t offset = 0;
    dev_t device = 0;
    ino_t inode = 0;
    uintptr_t base = 0;  ///< a copy of the bytes when they became private; 0: they are still shared
  };

  void choose(const Mapping& mapping, const PageArena& arena, const PageCounts& whole, bool leave_out);
  void make_private();
  void make_shared();
  void copy_here(const Run& run, int maps) const;
  void wait_for_child();
  void end();

  std::vector<Run> copied_;       ///< by the child
  std::vector<Run> private_;      ///< for the time of fork()
  int child_done_[2] = {-1, -1};  ///< a pipe; it also hangs up when fork() made no child
};

}  // namespace uroce::sharing
