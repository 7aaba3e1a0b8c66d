// What the two threads of replace_pages() do. All that they store into is in PageWork or on stacks mapped for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sharing/page_guard.h"
#include "sharing/page_replacement.h"

namespace uroce::sharing {

/// Lies in memory mapped for this one piece of work, as `runs` and `buffer` do.
struct PageWork {
  PageGuard guard;
  PageKind kind;
  std::size_t page;  ///< bytes
  std::span<const Replacement> runs;
  uintptr_t zeros = 0;              ///< a page of zeros
  int stop_fd = -1;                 ///< readable: the monitor is to end
  int pipe_out = -1, pipe_in = -1;  ///< private_file only
  uintptr_t buffer = 0;             ///< private_file only, as long as a chunk
  std::size_t chunk = 0;            ///< bytes that are guarded at a time
  std::atomic<uint32_t> go{0}, done{0};
  Moved moved{};
};

/// Waits until the word is not 0.
void sleep_until_set(std::atomic<uint32_t>& word);
void set_and_wake(std::atomic<uint32_t>& word);

/// Starts when `go` is set, sets `done` at the end.
void* move_pages(void* work);

/// Answers threads that touch pages which are not there, and takes the events that mremap(2) waits for.
void* monitor_pages(void* work);

}  // namespace uroce::sharing
