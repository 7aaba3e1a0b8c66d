// Private pages that were moved into the library's memfds, and their way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include <uroce/error.h>

#include "sharing/mappings.h"
#include "sharing/page_arena.h"
#include "sharing/page_counts.h"
#include "sharing/page_intervals.h"

namespace uroce::sharing {

/// One thread.
class MovedPages {
 public:
  /// The memfd that the mapping maps, if it is one of the library's; else nullptr.
  const PageArena* arena_of(const Mapping& mapping) const;

  /// Moves the pages of [first, end), which lie in `mapping`. Errors: EOPNOTSUPP, ENOMEM, EPERM, EFAULT.
  Result<void> move(const Mapping& mapping, uintptr_t first, uintptr_t end);

  /// Makes the moved pages of [first, end) private again, with their bytes. `mappings`: those of the range. Pages that
  /// cannot go back (huge pages, a kernel before 5.19, no memory) stay as they are. Pages that the program has unmapped
  /// or put elsewhere wait for sweep().
  void give_back(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end);

  /// Bytes that wait for sweep().
  std::size_t astray() const;
  /// Frees pages that are no longer mapped, and gives those back that the program has put elsewhere and that nobody
  /// holds there. `mappings`: all of the process.
  void sweep(const std::vector<Mapping>& mappings, const PageCounts& held);

  /// The whole pages of [first, end) that were moved and have not gone back.
  Intervals::List within(uintptr_t first, uintptr_t end) const;

  /// For a child of fork(): the pages are the parent's.
  void forget_all();

 private:
  /// Moved pages.
  struct Run {
    uintptr_t end = 0;
    PageArena* arena = nullptr;
    uint64_t offset = 0;          ///< of the first page in the arena
    uintptr_t park = 0;           ///< where the mapping that was here waits; 0: there is none
    bool park_has_pages = false;  ///< old ones, which take memory
    int protection = 0;           ///< PROT_* of the mapping in the park
  };
  using Runs = std::map<uintptr_t, Run>;  ///< by the address where the pages were when they were moved
  struct Stray {
    PageArena* arena;
    uint64_t first, end;  ///< offsets
  };

  Result<PageArena*> arena_for(std::size_t page, std::size_t length);
  void close_full_arenas();
  void note(uintptr_t first, Run run);
  void empty_park(uintptr_t first, Run& run);
  Runs::iterator from(uintptr_t first);
  /// The record of `address` on, if the record is cut there.
  Runs::iterator split(Runs::iterator at, uintptr_t address);
  void lose(Runs::iterator at);
  void lose_gone(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end);
  void put_back(Runs::iterator at, int protection);
  void adopt(const Mapping& mapping, PageArena& arena, uint64_t first, uint64_t end, const PageCounts& held);

  std::list<PageArena> arenas_;
  Runs runs_;
  std::vector<Stray> strays_;  ///< pages that are not where they were when they were moved
  std::size_t parked_ = 0;     ///< bytes of the pages in parks
};

}  // namespace uroce::sharing
