// Pages that are to be replaced, and how far that came.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::sharing {

/// A run of pages within one mapping, and what takes its place.
struct Replacement {
  uintptr_t at = 0;
  std::size_t length = 0;
  uintptr_t staging = 0;  ///< a mapping as long as the run, readable and writable; gone from here once it is in place
  int protection = 0;     ///< PROT_* of the run from then on
  /// Not 0: memory as long as the run. With `keep_base` the bytes that were moved are left there too; without, it says
  /// what they were once, and only those that have changed since are written to `staging`.
  uintptr_t base = 0;
  bool keep_base = false;
};

enum class PageKind {
  anonymous,     ///< private memory that userfaultfd can write-protect: readers never wait
  shared,        ///< memfd pages mapped shared
  private_file,  ///< private pages of a file: userfaultfd knows none, so the pages are held by a pipe meanwhile
  unguarded,     ///< nobody can store into them: private pages of a file, mapped read-only
};

/// How far it came: all runs before `runs` are in place, and `bytes` of that one.
struct Moved {
  int error = 0;  ///< errno of what stopped it
  const char* step = "";
  std::size_t runs = 0;
  std::size_t bytes = 0;
};

}  // namespace uroce::sharing
