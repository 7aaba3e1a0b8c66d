// The pages to replace, and the progress of replacing them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace uroce::sharing {

/// A run of pages within one mapping, and the mapping that replaces it.
struct Replacement {
  uintptr_t at = 0;
  std::size_t length = 0;
  uintptr_t staging = 0;  ///< the new mapping, as long as the run, readable and writable; moved to `at`
  int protection = 0;     ///< PROT_* of the run afterwards
  /// Not 0: memory as long as the run. With `keep_base` the moved bytes are copied there, too. Without, it has an
  /// earlier copy of the bytes, and only bytes that differ from it are written to `staging`.
  uintptr_t base = 0;
  bool keep_base = false;
  /// Zeros are where `at` has no page, so such pages need no copy; `staging` has zeros, too.
  bool zero_where_missing = false;
  /// `staging` is fresh memory of a file, equal to `at` modulo 2 MiB: it may have huge pages.
  bool fresh_file = false;
  /// `fresh_file` only, of small pages: the file of `staging`, and where `staging` begins in it. The bytes are written
  /// to the file where it has no huge pages. -1: they are stored into `staging`.
  int into = -1;
  uint64_t into_offset = 0;
  /// `protectable` only: another mapping of the same pages, to copy from, or the file that has them. The program may
  /// unmap its own mapping meanwhile. 0 and -1: there is none.
  uintptr_t view = 0;
  int file = -1;
  uint64_t offset = 0;  ///< of the run in `file`
  dev_t device = 0;     ///< of `file`
  ino_t inode = 0;
  /// `staging` has no pages yet and reads as zeros, and `view` is set: pages of zeros need no copy.
  bool skip_zeros = false;
  /// `staging` has all its pages.
  bool has_pages = false;
  /// `anonymous` only: reserved addresses, as long as the run. The mapping that is replaced goes there, with its pages.
  uintptr_t park = 0;
};

/// Cuts the first bytes off the run.
inline void drop_front(Replacement& run, std::size_t bytes) {
  for (uintptr_t* address : {&run.at, &run.staging, &run.base, &run.view, &run.park}) {
    if (*address != 0) *address += bytes;
  }
  run.offset += bytes;
  run.into_offset += bytes;
  run.length -= bytes;
}

enum class PageKind {
  anonymous,     ///< private memory, which mremap(2) can put aside while threads that access it wait
  protectable,   ///< memfd pages and huge pages, which userfaultfd can write-protect since Linux 5.19: readers go on
  private_file,  ///< private pages of a file, which userfaultfd cannot write-protect: a pipe keeps them meanwhile
  unguarded,     ///< private pages of a file, mapped read-only: no thread can store into them
};

/// The progress: the first `runs` runs are in place, and `bytes` of the next one.
struct Moved {
  int error = 0;  ///< errno of `step`, where it failed
  const char* step = "";
  std::size_t runs = 0;
  std::size_t bytes = 0;
};

}  // namespace uroce::sharing
