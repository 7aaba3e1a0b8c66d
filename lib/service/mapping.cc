#include "service/mapping.h"

#include <algorithm>
#include <bit>
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
/// Addresses here agree with the client's modulo this, so that huge pages of any size fall on their boundaries.
constexpr uint64_t kAlignment = uint64_t{1} << 30;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
constexpr long kXfsMagic = 0x58465342;
constexpr long kHugetlbfsMagic = 0x958458f6;

/// Files whose pages come from memory or a local disk. Others (FUSE above all) can leave a reader waiting for a
/// process that means harm.
bool pages_come(long type) {
  constexpr long kKinds[] = {TMPFS_MAGIC, kHugetlbfsMagic,   RAMFS_MAGIC,          EXT4_SUPER_MAGIC,
                             kXfsMagic,   BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
  return std::ranges::find(kKinds, type) != std::end(kKinds);
}

std::unexpected<Error> system_error(const char* what) {
  const int code = errno;
  return fail(code, fmt::format("{} of the memory to register: {}", what, std::strerror(code)));
}

/// The size of the file's pages, where [offset, offset + length) of it can be mapped.
Result<uint64_t> page_size(int fd, uint64_t offset, uint64_t length) {
  struct statfs system{};
  struct stat file{};
  if (fstatfs(fd, &system) != 0 || fstat(fd, &file) != 0) return system_error("the file");
  if (!S_ISREG(file.st_mode) || !pages_come(static_cast<long>(system.f_type))) {
    return fail(EOPNOTSUPP, fmt::format("memory of a file of kind {:#x} cannot be registered; memory, tmpfs, hugetlbfs "
                                        "and files of local disks can",
                                        system.f_type));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  const auto whole = (size + kPage - 1) / kPage * kPage;
  if (offset > whole || length > whole - offset) {
    return fail(EINVAL, fmt::format("bytes {} to {} are past the end of the file of the memory to register, at {}",
                                    offset, offset + length, size));
  }
  if (static_cast<long>(system.f_type) != kHugetlbfsMagic) return kPage;
  const auto huge = static_cast<uint64_t>(system.f_bsize);
  if (!std::has_single_bit(huge) || huge < kPage || huge > kAlignment) {
    return fail(EOPNOTSUPP, fmt::format("huge pages of {} bytes cannot be registered", huge));
  }
  return huge;
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
                  fmt::format("a segment of the memory to register is descriptor {} of {}, offset {}, length {}; "
                              "offset and length are whole pages",
                              segment.fd, fds.size(), segment.offset, segment.length));
    }
    total += segment.length;
  }
  const uint64_t in_page = address % kPage;
  if (length == 0 || length > total || in_page + length > total) {
    return fail(EINVAL, fmt::format("the segments hold {} bytes; {} bytes from offset {} are to be registered", total,
                                    length, in_page));
  }
  std::unique_ptr<Mapping> mapping(new Mapping);
  // Room for the alignment, and for the rest of a huge page before and behind.
  mapping->reserved_bytes_ = total + 3 * kAlignment;
  void* reserved =
      mmap(nullptr, mapping->reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error("address space");
  mapping->reserved_ = static_cast<std::byte*>(reserved);
  const uint64_t first = address - in_page;
  const uint64_t shift = (first - reinterpret_cast<uint64_t>(reserved)) % kAlignment;
  mapping->base_ = mapping->reserved_ + kAlignment + shift;
  mapping->bytes_ = total;
  mapping->data_ = mapping->base_ + in_page;
  if (auto mapped = mapping->map(segments, fds, writable); !mapped) return std::unexpected(mapped.error());
  return mapping;
}

Result<void> Mapping::map(std::span<const message::Segment> segments, std::span<const message::Fd> fds, bool writable) {
  std::byte* at = base_;
  std::byte* begin = base_;
  std::byte* end = base_;
  for (const message::Segment& segment : segments) {
    const int fd = fds[segment.fd].get();
    const auto page = page_size(fd, segment.offset, segment.length);
    if (!page) return std::unexpected(page.error());
    // Whole pages of the file, around what the segment has of them. Only the first and last can have less, for in the
    // client too a mapping begins on a page of its file; where that is a lie, it loses its own bytes.
    const uint64_t before = segment.offset % *page;
    const uint64_t bytes = (before + segment.length + *page - 1) / *page * *page;
    std::byte* const place = at - before;
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    if (place < reserved_ || place + bytes > reserved_ + reserved_bytes_ ||
        mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(segment.offset - before)) !=
            place) {
      return system_error("mapping");
    }
    begin = std::min(begin, place);
    end = std::max(end, place + bytes);
    at += segment.length;
  }
  // Sealed or not: of a sealed file, too, a client can punch out pages that the machine then cannot give again.
  watch_ = FaultWatch::add(begin, static_cast<std::size_t>(end - begin));
  if (watch_ < 0) {
    return fail(ENOMEM, fmt::format("{} memory regions are registered by all clients together, which is the limit; "
                                    "register fewer, larger ones",
                                    FaultWatch::kSlots));
  }
  // No page fault on the data path. Where that fails, as for what a file has lost meanwhile, the watch is there.
  madvise(base_, bytes_, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  return {};
}

Mapping::~Mapping() {
  if (watch_ >= 0) FaultWatch::remove(watch_);
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

bool Mapping::broken() const { return watch_ >= 0 && FaultWatch::broken(watch_); }

}  // namespace uroce::service
