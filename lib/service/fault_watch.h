// Memory that another process may take back: it truncates the file, or punches a hole and leaves no page to fill it. An
// access then raises SIGBUS (mmap(2)). The handler puts zero pages in the place, so that the engine continues, and
// marks the memory as broken.
//
// An access to a hole that is being punched waits in the kernel until the punch is done, and then gets a new page. In
// guarded memory it raises SIGBUS instead of getting the page (userfaultfd(2), UFFD_FEATURE_SIGBUS). The wait remains,
// but it is known who caused it, and how long it was.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/time.h"

namespace uroce::service {

/// How long engines have waited for the memory of one client. Any thread.
struct EngineWaits {
  std::atomic<int64_t> nanoseconds{0};  ///< of rounds from 1 ms on that met a missing page; settle_waits() resets it
  std::atomic<uint64_t> file{0};        ///< bytes of the largest file behind the last such page
};

/// Watches one range while it lives. Any thread.
class FaultWatch {
 public:
  /// Watches [base, base + bytes), which no other watch covers. `page`: the size of its largest pages, a power of two.
  /// The first watch installs the handler. It passes faults elsewhere on to the previous one.
  FaultWatch(std::byte* base, std::size_t bytes, std::size_t page);
  /// No thread accesses the range any more. Unmap it afterwards.
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  /// Installs the handler already now, for a process that is made with this one's handlers.
  static void install();
  /// Whether this process may guard memory. Asks the kernel once: do so before a filter of system calls is set.
  static bool can_guard();
  /// Makes an access to a page that is missing in [at, at + bytes), whole pages of the range, break the watch. Errors:
  /// those of UFFDIO_REGISTER, ioctl_userfaultfd(2); EPERM also where can_guard() is false.
  static int guard(std::byte* at, std::size_t bytes);

  /// The range has become smaller, and its largest pages are known. Before any other thread accesses the range.
  void settle(std::size_t bytes, std::size_t page);
  /// Notes waits there from now on, for a file of `file` bytes. Before any other thread accesses the range.
  void note_waits(std::shared_ptr<EngineWaits> waits, uint64_t file);

  bool broken() const { return broken_.load(std::memory_order_acquire); }
  /// Replaces all of the range by zero pages, a bounded part at a time.
  void break_all();

  /// The number of repairs so far, of all ranges.
  static uint64_t breaks();
  /// An eventfd that rings for each wait, or -1. The last call counts. Once the call returns, the one before is not
  /// used.
  static void set_bell(int fd);
  /// For the handler: whether a watch covers the address and could repair it.
  static bool repair_at(uintptr_t address);

 private:
  bool repair(uintptr_t address);
  void note_wait(Nanos waited);
  void mark_broken();

  const uintptr_t base_;
  std::size_t bytes_;
  std::size_t page_;
  std::size_t windows_ = 0;  // repaired apart from the rest
  std::atomic<bool> broken_{false};
  std::shared_ptr<EngineWaits> waits_{};
  uint64_t file_ = 0;
};

}  // namespace uroce::service
