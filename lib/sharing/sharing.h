// Memory that the application already has, made shareable in place, so that the daemon maps the very same pages.
//
// Pages that are shared already (memfd, hugetlbfs, a file mapped shared, System V segments) are passed as they are.
// Private ones are moved: userfaultfd write-protects them, their bytes go into a memfd, and a shared mapping of that
// takes their place, without losing a store of any thread (userfaultfd(2), mremap(2)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/error.h>

namespace uroce::sharing {

/// A run of bytes of one file. The descriptor is owned by the Sharing that gave it and stays open while the range is
/// held.
struct SharedSegment {
  int fd = -1;
  uint64_t offset = 0;     ///< of the first byte in the file, a multiple of the page size
  std::size_t length = 0;  ///< a multiple of the page size
};

/// All ranges that this process has made shareable: one per process, as mappings are. Any thread.
class Sharing {
 public:
  static Sharing& of_this_process();

  /// Makes the pages of [address, address + length) shareable; `writable` when peers or completions write there. The
  /// segments cover the pages from the one of `address` on, in order and without holes; pages are those of
  /// sysconf(_SC_PAGESIZE), so that a file on hugetlbfs is to be mapped from its next lower huge page (st_blksize).
  /// Only what was moved has a size that is sealed: other files may shrink under their mapping. Pages stay shareable
  /// for the life of their mapping; what is asked for again is not moved again, and memory that was freed and mapped
  /// anew is found to be so. Errors: EFAULT (not mapped, or not readable; not writable with `writable`), EOPNOTSUPP
  /// (pages of a kind that cannot be shared, named in the text), ENOMEM, EPERM (userfaultfd is not allowed here; the
  /// text says what to set).
  Result<std::vector<SharedSegment>> share(void* address, std::size_t length, bool writable);

  /// Says that a range given to share() is registered no longer, once for each time it was: its pages stay shared, but
  /// may hold other things from now on, and a child of fork() gets a copy of them in any case.
  void done_with(void* address, std::size_t length);

  /// From here on a child of fork() gets no copy of whole pages shared, as ibv_fork_init(3) has it. Without it a child
  /// sees a copy of its own, made while the parent waits in fork().
  void leave_out_of_children();

 private:
  Sharing();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::sharing
