#include "service/mapping.h"

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

#include "service/fault_watch.h"

namespace uroce::service {
namespace {

constexpr uint64_t kPage = 4096;
/// Addresses here equal the client's modulo this, so that huge pages of any size stay aligned.
constexpr uint64_t kAlignment = uint64_t{1} << 30;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
constexpr long kXfsMagic = 0x58465342;
constexpr long kHugetlbfsMagic = 0x958458f6;

/// Whether pages of such files come from memory or a local disk. Other files (FUSE above all) can make a reader wait
/// for a hostile process.
bool pages_come(long type) {
  constexpr long kKinds[] = {TMPFS_MAGIC, kHugetlbfsMagic,   RAMFS_MAGIC,          EXT4_SUPER_MAGIC,
                             kXfsMagic,   BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
  return std::ranges::find(kKinds, type) != std::end(kKinds);
}

std::unexpected<Error> system_error(const char* what) {
  const int code = errno;
  return fail(code, fmt::format("cannot register memory: {}: {}", what, std::strerror(code)));
}

/// The size of the file's pages. Errors where the descriptor is no file to map [offset, offset + length) of.
Result<uint64_t> check_file(int fd, uint64_t offset, uint64_t length) {
  struct statfs system{};
  struct stat file{};
  if (fstatfs(fd, &system) != 0 || fstat(fd, &file) != 0) return system_error("the file");
  if (!S_ISREG(file.st_mode) || !pages_come(static_cast<long>(system.f_type))) {
    return fail(EOPNOTSUPP,
                fmt::format("memory of a file system of type {:#x} cannot be registered; use anonymous memory, tmpfs, "
                            "hugetlbfs or a local disk",
                            system.f_type));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  const auto page = static_cast<long>(system.f_type) == kHugetlbfsMagic ? static_cast<uint64_t>(system.f_bsize) : kPage;
  if (page > kAlignment) {
    return fail(EOPNOTSUPP, fmt::format("memory in pages of {} bytes cannot be registered; the largest page is {}",
                                        page, kAlignment));
  }
  const auto whole = (size + page - 1) / page * page;
  if (offset > whole || length > whole - offset) {
    return fail(EINVAL,
                fmt::format("cannot register bytes {} to {} of a file that has {}", offset, offset + length, size));
  }
  return page;
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::make(std::span<const message::Segment> segments,
                                               std::span<const message::Fd> fds, uint64_t address, uint64_t length,
                                               bool writable) {
  uint64_t total = 0;
  for (const message::Segment& segment : segments) {
    if (segment.fd >= fds.size() || segment.length == 0 || segment.length % kPage != 0 || segment.offset % kPage != 0 ||
        segment.length > kMaxBytes || segment.offset > kMaxBytes || total + segment.length > kMaxBytes) {
      return fail(EINVAL,
                  fmt::format("cannot register memory: a segment has descriptor {} of {}, offset {} and length {}; "
                              "offset and length must be whole pages",
                              segment.fd, fds.size(), segment.offset, segment.length));
    }
    total += segment.length;
  }
  const uint64_t in_page = address % kPage;
  if (length == 0 || length > total || in_page + length > total) {
    return fail(
        EINVAL,
        fmt::format("cannot register memory: the segments hold {} bytes, but {} bytes from offset {} are wanted", total,
                    length, in_page));
  }
  if (total - length - in_page >= kPage) {
    return fail(
        EINVAL,
        fmt::format("cannot register memory: the segments hold {} bytes for a region of {}; pass only the pages that "
                    "hold it",
                    total, length));
  }
  std::unique_ptr<Mapping> mapping(new Mapping);
  if (auto mapped = mapping->map(segments, fds, address - in_page, total, writable); !mapped) {
    return std::unexpected(mapped.error());
  }
  mapping->data_ += in_page;
  return mapping;
}

Result<void> Mapping::map(std::span<const message::Segment> segments, std::span<const message::Fd> fds, uint64_t first,
                          uint64_t total, bool writable) {
  // Files of huge pages are mapped in whole huge pages. The reservation must include the parts before the first byte
  // and after the last, or they would replace neighbouring mappings.
  uint64_t before = 0, behind = 0, done = 0;
  for (const message::Segment& segment : segments) {
    const auto page = check_file(fds[segment.fd].get(), segment.offset, segment.length);
    if (!page) return std::unexpected(page.error());
    const uint64_t front = segment.offset % *page;
    const uint64_t back = (*page - (segment.offset + segment.length) % *page) % *page;
    const bool fits = (first + done - front) % *page == 0 && (front == 0 || done == 0) &&
                      (back == 0 || done + segment.length == total);
    if (!fits) {
      return fail(
          EINVAL,
          fmt::format("cannot register memory: a segment of {} bytes at offset {} of its file is not whole pages "
                      "of {} bytes",
                      segment.length, segment.offset, *page));
    }
    before += front;
    behind += back;
    done += segment.length;
  }
  if (auto reserved = reserve(first - before, before + total + behind); !reserved) return reserved;
  data_ = base_ + before;

  std::byte* at = base_;
  for (const message::Segment& segment : segments) {
    const uint64_t front = at == base_ ? before : 0;
    const uint64_t length = front + segment.length + (at + front + segment.length == data_ + total ? behind : 0);
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    if (mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fds[segment.fd].get(),
             static_cast<off_t>(segment.offset - front)) != at) {
      return system_error("mapping");
    }
    at += length;
  }
  // Sealed files, too: a client can punch holes in one, and the machine may then have no pages for them.
  watch_ = FaultWatch::add(base_, bytes_);
  if (watch_ < 0) {
    return fail(ENOMEM, fmt::format("cannot register memory: all clients together have {} regions, which is the limit; "
                                    "register fewer, larger ones",
                                    FaultWatch::kSlots));
  }
  // So that the data path has no page faults. Where this fails, as for a truncated file, the fault watch helps.
  madvise(base_, bytes_, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  return {};
}

Result<void> Mapping::reserve(uint64_t like, uint64_t bytes) {
  void* reserved = mmap(nullptr, bytes + kAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error("address space");
  auto* const start = static_cast<std::byte*>(reserved);
  const uint64_t shift = (like - reinterpret_cast<uint64_t>(reserved)) % kAlignment;
  base_ = start + shift;
  bytes_ = bytes;
  // Frees the rest: all clients share the 65530 mappings that a process may have (vm.max_map_count).
  if (shift != 0) munmap(start, shift);
  munmap(base_ + bytes, kAlignment - shift);
  return {};
}

Mapping::~Mapping() {
  if (watch_ >= 0) FaultWatch::remove(watch_);
  if (base_ != nullptr) munmap(base_, bytes_);
}

bool Mapping::broken() const { return watch_ >= 0 && FaultWatch::broken(watch_); }

}  // namespace uroce::service
