// userfaultfd(2): blocks threads that store into write-protected pages or access missing pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <uroce/error.h>

namespace uroce::sharing {

/// A userfaultfd of this process. It stays open, because closing it visits every mapping: unwatch what is left of a
/// watched range. The calls neither allocate nor set errno, so they are safe while pages are guarded (page_syscall.h);
/// they return 0 or an errno value. A copy is the same descriptor; the original must not be read while pages are
/// missing.
class PageGuard {
 public:
  enum : uint64_t { kMissing = 1, kStores = 2 };
  enum Kind {
    plain,       ///< watches addresses
    travelling,  ///< watched pages stay so when mremap(2) moves them, which waits until the event has been read
  };

  /// Opens it for the first call, in each process. One thread at a time. Opens the privileged kind where it is allowed:
  /// the kernel's own stores, in read(2) say, then wait, too. Otherwise opens the unprivileged kind
  /// (UFFD_USER_MODE_ONLY), with which such stores fail with EFAULT.
  static Result<PageGuard> of_this_process(Kind kind = plain);
  /// Guards nothing: for pages that no thread can access, because all other ones are stopped.
  static PageGuard none() { return PageGuard(-1, 0, true); }
  /// For a child of fork(): closes the parent's, which would guard the parent's memory.
  static void forget();
  /// How many userfaultfds this process and its parents have opened.
  static unsigned opened();

  int fd() const { return fd_; }
  bool guards() const { return fd_ >= 0; }
  bool kernel_waits() const { return kernel_waits_; }  ///< the kernel's own stores wait instead of failing
  bool guards_shared_memory() const;                   ///< write-protects memfd and tmpfs pages, too (Linux 5.19)

  int watch(uintptr_t at, std::size_t length, uint64_t what) const;
  int unwatch(uintptr_t at, std::size_t length) const;
  int stop_stores(uintptr_t at, std::size_t length) const;
  /// Whether the pages that were watched for stores still are there and watched. Wakes nobody.
  bool is_watched(uintptr_t at, std::size_t length) const;
  void wake(uintptr_t at, std::size_t length) const;
  /// Copies pages to where they are missing, and wakes the threads that wait for them.
  int put(uintptr_t at, uintptr_t from, std::size_t length, bool stop_stores) const;

 private:
  static Result<PageGuard> open(Kind kind);
  /// Whether the descriptor still is a userfaultfd.
  bool usable() const;
  PageGuard(int fd, uint64_t features, bool kernel_waits) : fd_(fd), features_(features), kernel_waits_(kernel_waits) {}
  int fd_ = -1;
  uint64_t features_ = 0;
  bool kernel_waits_ = false;
};

}  // namespace uroce::sharing
