// Pages for the memory that others move into: huge ones, where the kernel has them and the range is long enough. Safe
// while pages are guarded (page_syscall.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::sharing {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

enum class Populate : uintptr_t { read = 22, write = 23 };  // MADV_POPULATE_*, Linux 5.14

/// Makes pages present, as by an access, and reports pages that cannot be as an errno value instead of a SIGBUS.
int populate(uintptr_t at, std::size_t length, Populate how);

class FreshPages {
 public:
  /// For [at, at + length), mapped from a memfd. `may_be_huge`: nothing there has pages yet, and the bytes of the file
  /// are where huge pages would be. `only_huge`: small pages come with the bytes, later.
  FreshPages(uintptr_t at, std::size_t length, bool may_be_huge, bool only_huge)
      : end_(at + length), done_(at), huge_from_(at), huge_end_(at), may_be_huge_(may_be_huge), only_huge_(only_huge) {}

  bool is_huge(uintptr_t at) const { return at >= huge_from_ && at < huge_end_; }
  /// Whether `at` has a page already.
  bool reaches(uintptr_t at) const { return at < done_; }
  /// Allocates the next pages, at least up to `end`. Returns 0 or an errno value.
  int allocate(uintptr_t end);
  /// As if the next pages up to `end` were there.
  int skip(uintptr_t end) {
    done_ = end;
    return 0;
  }
  /// The bytes from `at` on to move at a time: `most`, or up to the end of a huge page if `whole_huge`; less where the
  /// pages end that there are, or huge ones begin.
  std::size_t chunk_at(uintptr_t at, std::size_t most, bool whole_huge) const;

 private:
  bool allocate_huge(uintptr_t first, uintptr_t end);

  uintptr_t end_, done_;            // `done_`: the first address without a page
  uintptr_t huge_from_, huge_end_;  // the last huge pages
  bool may_be_huge_, only_huge_;
};

}  // namespace uroce::sharing
