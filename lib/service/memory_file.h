// The files of which clients register memory: whether the daemon may map them, and where they have pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <uroce/error.h>

namespace uroce::service {

struct MemoryFile {
  uint64_t page = 0;           ///< bytes
  uint64_t size = 0;           ///< bytes
  bool tells_of_holes = true;  ///< false on hugetlbfs, where mmap(2) reserves the pages
  bool punchable = false;      ///< a client may remove small pages; an access meanwhile waits for it
  bool guardable = false;      ///< FaultWatch::guard() can tell of that: the descriptor may write, and no seal forbids
  bool dmabuf = false;         ///< memory of a driver, whose pages madvise(2) does not know
};

/// Files besides memory that a client may have mapped.
struct FileRights {
  bool disks = false;  ///< of local disks: the daemon's engines would wait for the disk, and a stacked file system can
                       ///< make them wait for the client
  bool exporters = false;  ///< dma-bufs of any driver: an access may wait for the driver, and for who uses it
};

/// A descriptor from a client, to map [offset, offset + length) of it. Memory (memfd, tmpfs, hugetlbfs) is accepted,
/// and dma-bufs of udmabuf, which are of memfds. Errors: EOPNOTSUPP (the kind of file, naming the way out), EACCES (the
/// dma-buf's exporter), EINVAL (bytes beyond the end), EBADF.
Result<MemoryFile> check_memory_file(int fd, uint64_t offset, uint64_t length, const FileRights& rights);

/// Whether the descriptor's file is of memory or of a local disk, so that its calls wait for no client and no network.
/// Errors: EBADF.
Result<bool> is_local_file(int fd);

/// Whether the descriptor was opened with O_PATH, which everybody may do to every file that a path leads to.
bool is_path_only(int fd);

/// Makes present the pages that [offset, offset + length) of `file`, the descriptor `fd`, has; they are mapped at `at`.
/// Leaves holes, because memory that fills them would be charged to the daemon. Returns the bytes of holes. Moves the
/// descriptor's position and puts it back.
uint64_t make_present(const MemoryFile& file, int fd, uint64_t offset, uint64_t length, std::byte* at, bool writable);

}  // namespace uroce::service
