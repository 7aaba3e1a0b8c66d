// userfaultfd(2): makes threads wait that store into pages, or touch pages that are not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <uroce/error.h>

namespace uroce::sharing {

/// Owns one userfaultfd. Closing it lets every waiting thread go on. The calls of a guard neither allocate nor touch
/// errno, so that they may be made while pages are guarded (page_syscall.h); they give 0 or an errno value.
class PageGuard {
 public:
  enum : uint64_t { kMissing = 1, kStores = 2 };

  /// The better kind where it is allowed: with it the kernel's own stores, in read(2) say, wait too. Else the kind that
  /// needs no privilege (UFFD_USER_MODE_ONLY), with which they fail with EFAULT.
  static Result<PageGuard> open();

  PageGuard(PageGuard&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), features_(other.features_), kernel_waits_(other.kernel_waits_) {}
  PageGuard& operator=(PageGuard&&) = delete;
  ~PageGuard();

  int fd() const { return fd_; }
  bool kernel_waits() const { return kernel_waits_; }  ///< the kernel's own stores wait, too
  bool guards_shared_memory() const;                   ///< stores into memfd and tmpfs pages too (Linux 5.19)

  int watch(uintptr_t at, std::size_t length, uint64_t what) const;
  int unwatch(uintptr_t at, std::size_t length) const;
  int stop_stores(uintptr_t at, std::size_t length) const;
  void wake(uintptr_t at, std::size_t length) const;
  /// Puts copied pages where they are missing, and wakes who waits for them.
  int put(uintptr_t at, uintptr_t from, std::size_t length, bool stop_stores) const;

 private:
  PageGuard(int fd, uint64_t features, bool kernel_waits) : fd_(fd), features_(features), kernel_waits_(kernel_waits) {}
  int fd_ = -1;
  uint64_t features_ = 0;
  bool kernel_waits_ = false;
};

}  // namespace uroce::sharing
