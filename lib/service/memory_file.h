// The files of which clients register memory: whether the daemon may map them, and where they have pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <uroce/error.h>

namespace uroce::service {

struct MemoryFile {
  uint64_t page = 0;           ///< bytes
  bool tells_of_holes = true;  ///< false on hugetlbfs, where mmap(2) reserves the pages
};

/// A descriptor from a client, to map [offset, offset + length) of it. Memory (memfd, tmpfs, hugetlbfs) is accepted.
/// Local disks are accepted with `disks` only: the daemon's engines would wait for the disk, and a stacked file system
/// can make them wait for the client. Errors: EOPNOTSUPP (the kind of file, naming the way out), EINVAL (bytes beyond
/// the end), EBADF.
Result<MemoryFile> check_memory_file(int fd, uint64_t offset, uint64_t length, bool disks);

/// Makes present the pages that [offset, offset + length) of `file`, the descriptor `fd`, has; they are mapped at `at`.
/// Leaves holes, because memory that fills them would be charged to the daemon. Returns the bytes of holes. Moves the
/// descriptor's position and puts it back.
uint64_t make_present(const MemoryFile& file, int fd, uint64_t offset, uint64_t length, std::byte* at, bool writable);

}  // namespace uroce::service
