#include "sharing/fresh_pages.h"

#include <algorithm>
#include <cerrno>

#include <sys/prctl.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr uintptr_t kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1
// Memory that is there twice while pages move. A collapse first empties lists of every core, which takes
// milliseconds where they are busy: so the fewer the better, and none for a little memory.
constexpr std::size_t kStretch = std::size_t{128} << 20, kWorthACollapse = std::size_t{16} << 20;

/// A collapse fails in programs that have set PR_SET_THP_DISABLE, so that no huge pages come unasked: ceph has, and the
/// first use of each of its buffers of 64 KiB would take 0.4 ms. While this lives the setting is off.
class HugePagesAllowed {
 public:
  HugePagesAllowed() : were_off_(raw_syscall(SYS_prctl, PR_GET_THP_DISABLE) == 1) {
    if (were_off_) raw_syscall(SYS_prctl, PR_SET_THP_DISABLE, 0);
  }
  HugePagesAllowed(const HugePagesAllowed&) = delete;
  HugePagesAllowed& operator=(const HugePagesAllowed&) = delete;
  ~HugePagesAllowed() {
    if (were_off_) raw_syscall(SYS_prctl, PR_SET_THP_DISABLE, 1);
  }

 private:
  const bool were_off_;
};

}  // namespace

int populate(uintptr_t at, std::size_t length, Populate how) {
  long result = 0;
  do {
    result = raw_syscall(SYS_madvise, at, length, static_cast<uintptr_t>(how));
  } while (result == -EINTR || result == -EAGAIN);
  return result == 0 || result == -EINVAL ? 0 : static_cast<int>(-result);
}

int FreshPages::allocate(uintptr_t end) {
  const uintptr_t from = done_;
  if (may_be_huge_) {
    const uintptr_t stretch = end_ - from <= kStretch + kWorthACollapse ? end_ : round_down(from + kStretch, kHugePage);
    may_be_huge_ = allocate_huge(round_up(from, kHugePage), round_down(stretch, kHugePage));
    if (may_be_huge_) end = std::max(end, stretch);
  }
  done_ = end;
  if (only_huge_ && !may_be_huge_) return 0;
  return populate(from, end - from, Populate::write);
}

std::size_t FreshPages::chunk_at(uintptr_t at, std::size_t most, bool whole_huge) const {
  const bool huge = is_huge(at);
  if (huge && whole_huge) return round_down(at, kHugePage) + kHugePage - at;
  const uintptr_t edge = at < huge_from_ ? huge_from_ : huge ? huge_end_ : done_;
  return std::min(most, edge - at);
}

// Faults give huge pages only where shmem_enabled says so. A collapse does not need that. It wants one page in each
// range, and fills the rest with zeros. It fails where a control group has no room for another huge page; small pages
// then come a chunk at a time.
bool FreshPages::allocate_huge(uintptr_t first, uintptr_t end) {
  if (end < first + kWorthACollapse) return false;
  for (uintptr_t at = first; at < end; at += kHugePage) {
    if (populate(at, page_size(), Populate::write) != 0) return false;
  }
  const HugePagesAllowed allowed;
  if (raw_syscall(SYS_madvise, first, end - first, kCollapse) != 0) return false;
  huge_from_ = first;
  huge_end_ = end;
  return true;
}

}  // namespace uroce::sharing
