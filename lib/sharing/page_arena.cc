#include "sharing/page_arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr uint64_t kMostUnpunched = 256 * 1024;
constexpr uint64_t kArenaBytes = uint64_t{1} << 44;  // sparse; far more than a process registers in its lifetime

// ftruncate(2) beyond the limit would end the process with SIGXFSZ.
uint64_t allowed_bytes(std::size_t page) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  return round_down(std::min<uint64_t>(kArenaBytes, limit.rlim_cur), page);
}

}  // namespace

PageArena::PageArena(int fd, std::size_t page, uint64_t size) : fd_(fd), page_(page), size_(size) {
  struct stat status{};
  ::fstat(fd, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

PageArena::PageArena(PageArena&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      device_(other.device_),
      inode_(other.inode_),
      page_(other.page_),
      size_(other.size_),
      next_(other.next_),
      used_(other.used_),
      punch_from_(other.punch_from_),
      punch_to_(other.punch_to_) {}

PageArena::~PageArena() {
  if (fd_ >= 0) ::close(fd_);
}

Result<PageArena> PageArena::create(std::size_t page) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (page != page_size()) {
    flags |= MFD_HUGETLB | static_cast<unsigned>(std::countr_zero(page)) << MAP_HUGE_SHIFT;
  }
  const int fd = ::memfd_create("uroce-shared-pages", flags);
  if (fd < 0) return fail(errno, fmt::format("cannot create a memfd with pages of {} bytes: errno {}", page, errno));
  PageArena arena(fd, page, allowed_bytes(page));
  if (::ftruncate(fd, static_cast<off_t>(arena.size_)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return fail(errno, fmt::format("cannot resize a memfd to {} bytes and seal it: errno {}", arena.size_, errno));
  }
  return arena;
}

Result<uint64_t> PageArena::allocate(std::size_t length, uintptr_t address) {
  const std::size_t unit = length >= kHugePage ? std::max(page_, kHugePage) : page_;
  const uint64_t offset = round_up(next_, unit) + (address & (unit - 1));
  if (offset > size_ || length > size_ - offset) {
    return fail(ENOMEM, fmt::format("cannot share another {} bytes: a file may have {} bytes here; raise the limit "
                                    "RLIMIT_FSIZE",
                                    length, size_));
  }
  next_ = offset + length;
  used_ += length;
  return offset;
}

uintptr_t PageArena::map(uint64_t offset, std::size_t length) const {
  void* const at = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd_, static_cast<off_t>(offset));
  return at == MAP_FAILED ? 0 : word_of(at);
}

// Small regions come and go one after the other: one call frees many of their pages.
void PageArena::free(uint64_t first, uint64_t end) {
  used_ -= end - first;
  if (first != punch_to_) {
    punch();
    punch_from_ = first;
  }
  punch_to_ = end;
  if (punch_to_ - punch_from_ >= kMostUnpunched) punch();
}

void PageArena::punch() {
  if (punch_from_ == punch_to_) return;
  (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(punch_from_),
                    static_cast<off_t>(punch_to_ - punch_from_));
  punch_from_ = punch_to_;
}

}  // namespace uroce::sharing
