// userfaultfd(2): makes threads wait that store into pages, or touch pages that are not there.
#pragma once

#include <cstddef>
#include <cstdint>

#include <uroce/error.h>

namespace uroce::client {

/// Owns one userfaultfd. Closing it lets every waiting thread go on. The calls of a guard neither allocate nor touch
/// errno, so that they may be made while pages are guarded (page_syscall.h); they give 0 or an errno value.
class PageGuard {
 public:
  enum : uint64_t { kMissing = 1, kStores = 2 };

  /// `user_mode_only` asks for the kind that needs no privilege. Otherwise the better kind is taken where it is
  /// allowed: with it the kernel's own stores, in read(2) say, wait too; without, they fail with EFAULT.
  static Result<PageGuard> open(bool user_mode_only = false);

  PageGuard(PageGuard&& other) noexcept : fd_(other.fd_), features_(other.features_) { other.fd_ = -1; }
  PageGuard& operator=(PageGuard&&) = delete;
  ~PageGuard();

  int fd() const { return fd_; }
  bool guards_shared_memory() const;  ///< stores into memfd and tmpfs pages too (Linux 5.19)

  int watch(uintptr_t at, std::size_t length, uint64_t what) const;
  int unwatch(uintptr_t at, std::size_t length) const;
  int stop_stores(uintptr_t at, std::size_t length) const;
  void wake(uintptr_t at, std::size_t length) const;
  /// Puts copied pages where they are missing, and wakes who waits for them.
  int put(uintptr_t at, uintptr_t from, std::size_t length, bool stop_stores) const;

 private:
  PageGuard(int fd, uint64_t features) : fd_(fd), features_(features) {}
  int fd_ = -1;
  uint64_t features_ = 0;
};

}  // namespace uroce::client
