// The huge pages of this machine.
#pragma once

#include <cstdint>
#include <vector>

namespace uroce::hugepages {

/// Those of one size.
struct HugePages {
  uint64_t page_bytes = 0;
  uint64_t reserved = 0;  ///< pages, those in use included
  uint64_t free = 0;      ///< pages that are neither in use nor promised to a mapping that has not touched them yet
  bool mounted = false;   ///< there is a hugetlbfs of this size that this user may use
};

/// Each size that the kernel has; none where it has no huge pages. Mounts are those at the process's start
/// (libhugetlbfs(7)). One thread at a time.
std::vector<HugePages> read();

/// True if a hugetlbfs is mounted, of whatever size, that this process may not open. EAL ends there.
bool closed_mount();

/// False where a filter of system calls refuses get_mempolicy(2), as those of containers do by default. EAL asks where
/// each huge page lies, and ends there.
bool may_be_placed();

}  // namespace uroce::hugepages
