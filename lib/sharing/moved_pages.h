// Private pages that were moved into the library's memfds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include <uroce/error.h>

#include "sharing/mappings.h"
#include "sharing/page_arena.h"

namespace uroce::sharing {

/// One thread.
class MovedPages {
 public:
  /// The memfd that the mapping maps, if it is one of the library's; else nullptr.
  const PageArena* arena_of(const Mapping& mapping) const;

  /// Moves the pages of [first, end), which lie in `mapping`. Errors: EOPNOTSUPP, ENOMEM, EPERM, EFAULT.
  Result<void> move(const Mapping& mapping, uintptr_t first, uintptr_t end);

  /// Frees pages that are no longer mapped, and closes memfds without mapped pages.
  void keep_only(const std::vector<Mapping>& mappings);
  void forget_all() { arenas_.clear(); }

 private:
  Result<PageArena*> arena_for(std::size_t page);
  std::list<PageArena> arenas_;
};

}  // namespace uroce::sharing
