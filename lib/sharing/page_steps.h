// How pages are replaced. The calls store only into PageWork and their own stacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sharing/page_guard.h"
#include "sharing/page_replacement.h"

namespace uroce::sharing {

/// Lies in memory mapped for this one call, as do `runs` and `buffer`.
struct PageWork {
  PageGuard guard;
  PageKind kind;
  std::size_t page;  ///< bytes
  std::span<const Replacement> runs;
  int stop_fd = -1;                 ///< private_file only: readable when the monitor must end
  int pipe_out = -1, pipe_in = -1;  ///< private_file only
  int maps = -1;                    ///< /proc/self/maps, where a run has a `file`
  int pagemap = -1;                 ///< /proc/self/pagemap, where a run is `zero_where_missing`
  int tasks = -1;                   ///< /proc/self/task, where a run is so long that asking the threads is faster
  uintptr_t buffer = 0;             ///< private_file only, as long as a chunk
  bool alone = false;               ///< the process has no other thread: nobody is to be stopped
  std::size_t chunk = 0;            ///< bytes guarded at a time; a huge page, where the new pages are huge
  uintptr_t helper_stack = 0;       ///< for ThreadStop; 0: a chunk with a thread control block fails with EAGAIN
  std::atomic<uint32_t> go{0}, done{0};
  Moved moved{};
};

/// The step that fails with EPERM where nothing guards the pages, and the other threads cannot be stopped either.
inline constexpr const char* kStoppingThreads = "stopping threads";

/// Waits until the word is not 0.
void sleep_until_set(std::atomic<uint32_t>& word);

/// Replaces the pages on the calling thread, whose stack is not among them.
void replace_runs(PageWork& work);

/// A thread that replaces the pages: begins when `go` is set, and sets `done` at the end.
void* move_pages(void* work);

/// The monitor thread of private files: reads the events that mremap(2) waits for.
void* monitor_pages(void* work);

}  // namespace uroce::sharing
