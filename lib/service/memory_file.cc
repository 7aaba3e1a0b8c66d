#include "service/memory_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "service/dmabuf.h"

namespace uroce::service {
namespace {

constexpr uint64_t kSmallPage = 4096;
constexpr uint64_t kLargestPage = uint64_t{1} << 30;
constexpr long kXfsMagic = 0x58465342;
constexpr long kHugetlbfsMagic = 0x958458f6;
constexpr long kDmabufMagic = 0x444d4142;
/// Bytes per system call. Page faults of engines and other clients' calls wait for the lock that it holds.
constexpr uint64_t kStep = uint64_t{16} << 20;

bool is_one_of(long type, std::initializer_list<long> kinds) { return std::ranges::find(kinds, type) != kinds.end(); }

/// Any user can mount ramfs in a user namespace; it does not tell of holes, so it does not count as memory.
bool is_disk(long type) {
  return is_one_of(
      type, {EXT4_SUPER_MAGIC, kXfsMagic, BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, static_cast<long>(RAMFS_MAGIC)});
}

/// Errors: EOPNOTSUPP.
Result<void> check_kind(long type, bool disks) {
  if (is_one_of(type, {TMPFS_MAGIC, kHugetlbfsMagic})) return {};
  if (is_disk(type)) {
    if (disks) return {};
    return fail(EOPNOTSUPP,
                fmt::format("memory of a file on a disk (file system of type {:#x}) cannot be registered, because all "
                            "clients would wait for the disk; use anonymous memory, tmpfs or hugetlbfs, or ask the "
                            "operator to set limits.file_memory",
                            type));
  }
  // Such a page may take for ever to arrive: FUSE, network file systems.
  return fail(EOPNOTSUPP,
              fmt::format("memory of a file system of type {:#x} cannot be registered; use anonymous memory, tmpfs or "
                          "hugetlbfs",
                          type));
}

std::unexpected<Error> file_error() {
  const int code = errno;
  return fail(code, fmt::format("cannot register memory: the file: {}", std::strerror(code)));
}

bool may_write(int fd) { return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR; }

/// The first page of [from, end) that the file has, or `end`. mincore(2) calls every page present when the daemon may
/// not write to the file.
uint64_t next_data(int fd, uint64_t from, uint64_t end) {
  const off_t data = lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (data < 0 || static_cast<uint64_t>(data) >= end) return end;
  return std::max(static_cast<uint64_t>(data) / kSmallPage * kSmallPage, from);
}

/// The end of the pages that the file has from `from` on, at most `end`. SEEK_HOLE finds it at once, but it may search
/// all pages of the file, and the client library has one file for everything. So it is asked only where asking for
/// each page would take longer.
uint64_t end_of_data(int fd, uint64_t from, uint64_t end) {
  constexpr uint64_t kPagesSearchedInTheTimeOfACall = 16;
  if (end - from <= kSmallPage) return end;
  struct stat file{};
  const auto pages = fstat(fd, &file) == 0 ? static_cast<uint64_t>(file.st_blocks) * 512 / kSmallPage : UINT64_MAX;
  if ((end - from) / kSmallPage >= pages / kPagesSearchedInTheTimeOfACall) {
    const off_t hole = lseek(fd, static_cast<off_t>(from), SEEK_HOLE);
    if (hole < 0) return from + kSmallPage;
    return std::clamp(static_cast<uint64_t>(hole) / kSmallPage * kSmallPage, from + kSmallPage, end);
  }
  uint64_t last = from + kSmallPage;
  while (last < end && next_data(fd, last, end) == last) last += kSmallPage;
  return std::min(last, end);
}

/// The seals of fcntl(2), and none where the file cannot have any.
int seals_of(int fd) { return std::max(fcntl(fd, F_GET_SEALS), 0); }

bool is_sealed_for_writing(int seals) { return (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0; }

/// Memory that is sealed for writing has no holes punched (fcntl(2), shmem). It may still shrink and grow, which makes
/// holes as well. A file that only root may write to is not punched by a client.
bool is_punchable(int fd, int seals, const struct stat& file) {
  if (is_sealed_for_writing(seals) && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != 0) return false;
  const bool of_root = file.st_uid == 0 && (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return !of_root || may_write(fd);
}

/// Where this fails, as for a file that is being truncated, the fault watch helps. Reads first: a read's fault maps the
/// pages around it, too, so there are 16 times fewer (fault_around_bytes). Shared memory is then writable as well; the
/// second call finds what is not.
void populate(std::byte* at, uint64_t bytes, bool writable) {
  for (uint64_t done = 0; done < bytes; done += kStep) {
    const uint64_t step = std::min(kStep, bytes - done);
    const bool one_call = writable && step == kSmallPage;
    if (!one_call && madvise(at + done, step, MADV_POPULATE_READ) != 0) return;
    if (writable && madvise(at + done, step, MADV_POPULATE_WRITE) != 0) return;
  }
}

/// The kernel has no pages of it that madvise(2) could populate, so that each is read once.
void touch(const std::byte* at, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += kSmallPage) {
    static_cast<void>(*static_cast<const volatile std::byte*>(at + done));
  }
}

std::unexpected<Error> beyond_the_end(uint64_t offset, uint64_t length, uint64_t size) {
  return fail(EINVAL,
              fmt::format("cannot register bytes {} to {} of a file that has {}", offset, offset + length, size));
}

/// Errors: EACCES, EINVAL, those of describe_dmabuf().
Result<MemoryFile> check_dmabuf(int fd, uint64_t offset, uint64_t length, bool any_exporter) {
  const auto buffer = describe_dmabuf(fd);
  if (!buffer) return std::unexpected(buffer.error());
  if (!any_exporter && !is_steady_exporter(buffer->exporter)) {
    return fail(EACCES, fmt::format("cannot register a dma-buf of exporter '{}': all clients may have to wait for its "
                                    "driver, so that only root and the daemon's user may; use a dma-buf of udmabuf",
                                    buffer->exporter));
  }
  if (offset > buffer->size || length > buffer->size - offset) return beyond_the_end(offset, length, buffer->size);
  return MemoryFile{.page = kSmallPage, .size = buffer->size, .tells_of_holes = false, .dmabuf = true};
}

}  // namespace

Result<MemoryFile> check_memory_file(int fd, uint64_t offset, uint64_t length, const FileRights& rights) {
  struct statfs system{};
  struct stat file{};
  if (is_path_only(fd)) return fail(EBADF, "cannot register memory: the file is open with O_PATH; open it for access");
  // The kind first: fstat(2) of a stacked file system may wait for the client.
  if (fstatfs(fd, &system) != 0) return file_error();
  const auto type = static_cast<long>(system.f_type);
  if (type == kDmabufMagic) return check_dmabuf(fd, offset, length, rights.exporters);
  if (auto kind = check_kind(type, rights.disks); !kind) return std::unexpected(kind.error());
  if (fstat(fd, &file) != 0) return file_error();
  if (!S_ISREG(file.st_mode)) {
    return fail(EOPNOTSUPP,
                "cannot register memory: the descriptor is no regular file; use anonymous memory, tmpfs or "
                "hugetlbfs");
  }
  const bool huge = type == kHugetlbfsMagic;
  const auto page = huge ? static_cast<uint64_t>(system.f_bsize) : kSmallPage;
  if (page > kLargestPage) {
    return fail(EOPNOTSUPP, fmt::format("memory in pages of {} bytes cannot be registered; the largest page is {}",
                                        page, kLargestPage));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  const auto whole = (size + page - 1) / page * page;
  if (offset > whole || length > whole - offset) return beyond_the_end(offset, length, size);
  const int seals = seals_of(fd);
  return MemoryFile{.page = page,
                    .size = size,
                    .tells_of_holes = !huge,
                    .punchable = type == TMPFS_MAGIC && is_punchable(fd, seals, file),
                    .guardable = may_write(fd) && !is_sealed_for_writing(seals)};
}

bool is_path_only(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_PATH) != 0;
}

Result<bool> is_local_file(int fd) {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0) {
    const int code = errno;
    return fail(code, fmt::format("descriptor {}: {}", fd, std::strerror(code)));
  }
  const auto type = static_cast<long>(system.f_type);
  return is_one_of(type, {TMPFS_MAGIC, kHugetlbfsMagic}) || is_disk(type);
}

uint64_t make_present(const MemoryFile& file, int fd, uint64_t offset, uint64_t length, std::byte* at, bool writable) {
  if (file.dmabuf) {
    touch(at, length);
    return 0;
  }
  if (!file.tells_of_holes) {
    populate(at, length, writable);
    return 0;
  }
  const off_t position = lseek(fd, 0, SEEK_CUR);
  const uint64_t end = offset + length;
  uint64_t holes = length;
  for (uint64_t done = offset; done < end;) {
    const uint64_t first = next_data(fd, done, end);
    if (first == end) break;
    const uint64_t last = end_of_data(fd, first, end);
    populate(at + (first - offset), last - first, writable);
    holes -= last - first;
    done = last;
  }
  lseek(fd, position, SEEK_SET);
  return holes;
}

}  // namespace uroce::service
