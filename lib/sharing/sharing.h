// Makes memory that the application already has shareable in place, so that the daemon can map the same pages.
//
// Pages that are shared already (memfd, hugetlbfs, a file mapped shared, System V segments) are passed as they are.
// Private pages are moved: userfaultfd write-protects them, their bytes go into a memfd, and a shared mapping of the
// memfd takes their place. No store of any thread is lost (userfaultfd(2), mremap(2)). README.md explains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/error.h>

#include "sharing/mapped_files.h"

namespace uroce::sharing {

/// Files that one call of Sharing::share() opens: a process may have few descriptors (RLIMIT_NOFILE).
inline constexpr std::size_t kFilesOpenAtOnce = 64;

/// A run of bytes of one file.
struct SharedSegment {
  int fd = -1;             ///< open while a copy of this, or its moved pages, are there; -1: see `unopened`
  uint64_t offset = 0;     ///< of the first byte in the file, a multiple of the page size
  std::size_t length = 0;  ///< a multiple of the page size
  FileDescriptor file{};   ///< not for moved pages, whose descriptor is the library's
  std::shared_ptr<const Mapping>
      unopened{};  ///< of a file that share() left to Sharing::open(), the same for each file
};

/// All ranges that this process has made shareable. There is one per process. Any thread.
class Sharing {
 public:
  static Sharing& of_this_process();

  /// Makes the pages of [address, address + length) shareable; `writable` when peers or completions write there. The
  /// segments cover all pages of the range, in order and without holes. Page sizes are sysconf(_SC_PAGESIZE): a mapping
  /// of a file on hugetlbfs must begin at the huge page below the segment's offset (st_blksize). The size of moved
  /// memory is sealed; other files may shrink under their mapping. Pages stay shareable until done_with(): a second
  /// call does not move them again, and memory that was unmapped and mapped anew is moved anew. Errors: EFAULT (not
  /// mapped or not readable; not writable with `writable`), EOPNOTSUPP (this kind of memory cannot be shared), EMFILE,
  /// ENOMEM, EPERM (userfaultfd is not permitted; the text says how to permit it).
  Result<std::vector<SharedSegment>> share(void* address, std::size_t length, bool writable);

  /// A descriptor of a file that share() has not opened. Errors: EOPNOTSUPP, EMFILE.
  Result<FileDescriptor> open(const Mapping& unopened, bool writable);

  /// Ends one registration of a range; call it once for each share(). Moved pages that no registration holds any more
  /// are private again when this returns, with their bytes. The daemon must not use them any more.
  void done_with(void* address, std::size_t length);

  /// From now on a child of fork() does not get whole registered pages (ibv_fork_init(3)). Without this call a child
  /// gets a copy, made while the parent waits in fork().
  void leave_out_of_children();

 private:
  Sharing();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::sharing
