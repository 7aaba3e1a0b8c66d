// What fork() makes of moved pages. They are shared mappings, and a child must not store into its parent's memory.
//
// Whole pages of registered ranges are copied by the child while the parent waits. Pages that hold other things too
// cannot wait for that: between clone(2) and the child's handlers the C library stores into its stack, its thread's
// block and malloc's arenas. These are private for the time of fork(), and what the parent stored there meanwhile is
// written back to the shared page, byte by byte, so that what peers stored there meanwhile stays too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sharing/mappings.h"
#include "sharing/moved_pages.h"
#include "sharing/page_intervals.h"

namespace uroce::sharing {

/// Called by the handlers of pthread_atfork(3), in this order, with the other users of the pages locked out.
class ForkCopies {
 public:
  /// `whole`: the addresses that belong to registered ranges alone. They are left out of the child when `leave_out`.
  void before(const std::vector<Mapping>& mappings, const MovedPages& pages, const Intervals& whole, bool leave_out);
  void in_parent();
  /// Stores into no moved page before it is the child's own.
  void in_child();

 private:
  struct Run {
    uintptr_t first = 0;
    std::size_t length = 0;
    int protection = 0;
    int fd = -1;
    uint64_t offset = 0;
    uintptr_t base = 0;  ///< what the bytes were when they became private; 0: they are still shared
  };

  void choose(const Mapping& mapping, const PageArena& arena, const Intervals& whole, bool leave_out);
  void make_private();
  void make_shared();
  void wait_for_child();
  void end();

  std::vector<Run> copied_;       ///< by the child
  std::vector<Run> private_;      ///< for the time of fork()
  int child_done_[2] = {-1, -1};  ///< a pipe; its end also tells that there is no child
};

}  // namespace uroce::sharing
