// The memfd that private pages are moved into. There is one per page size: a descriptor per region would exhaust the
// process's limit, and a sparse file costs only the pages that it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <uroce/error.h>

namespace uroce::sharing {

/// Offsets are never reused: a stale mapping of the file, in the daemon say, never shows other memory. One thread.
class PageArena {
 public:
  using Runs = std::vector<std::pair<uint64_t, uint64_t>>;  ///< [first, end) offsets

  /// A memfd with a sealed size: it cannot shrink, so no access to a mapping of it faults. Errors: EMFILE, ENOMEM.
  static Result<PageArena> create(std::size_t page);

  PageArena(PageArena&& other) noexcept;
  PageArena& operator=(PageArena&&) = delete;
  ~PageArena();

  int fd() const { return fd_; }
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }
  std::size_t page() const { return page_; }

  /// An offset for the pages at `address`, equal to it modulo 2 MiB, so that THP is possible.
  Result<uint64_t> allocate(std::size_t length, uintptr_t address);

  /// Frees the pages outside `mapped`, which is sorted and disjoint.
  void keep_only(const Runs& mapped);

 private:
  PageArena(int fd, std::size_t page, uint64_t size);
  void punch(uint64_t first, uint64_t end) const;

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::size_t page_;
  uint64_t size_, next_ = 0;
  Runs live_;
};

}  // namespace uroce::sharing
