// The memfd that private pages are moved into. There is one per page size: a descriptor per region would exhaust the
// process's limit, and a sparse file costs only the pages that it has.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include <uroce/error.h>

#include "sharing/fresh_pages.h"

namespace uroce::sharing {

/// Offsets are never reused: a stale mapping of the file, in the daemon say, never shows other memory. One thread.
class PageArena {
 public:
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

  /// Whether there is room for so many bytes more.
  bool has_room(std::size_t length) const { return length < size_ && next_ < size_ - length - kHugePage; }
  /// Frees pages, which are mapped nowhere; a few of them a little later.
  void free(uint64_t first, uint64_t end);
  /// A mapping to read these pages by; 0 with errno. The caller unmaps it.
  uintptr_t map(uint64_t offset, std::size_t length) const;
  /// Bytes that were allocated and not freed.
  uint64_t used() const { return used_; }

 private:
  PageArena(int fd, std::size_t page, uint64_t size);
  void punch();

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::size_t page_;
  uint64_t size_, next_ = 0, used_ = 0;
  uint64_t punch_from_ = 0, punch_to_ = 0;  ///< pages that are free, but not given back to the kernel yet
};

}  // namespace uroce::sharing
