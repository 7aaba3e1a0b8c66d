// Memory that another process may take back: it truncates the file, or punches a hole and leaves no page to fill it. An
// access then raises SIGBUS (mmap(2)). The handler puts zero pages in the place, so that the engine continues, and
// marks the memory as broken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::service {

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

  bool broken() const { return broken_.load(std::memory_order_acquire); }
  /// The number of repairs so far, of all ranges.
  static uint64_t breaks();
  /// For the handler: whether a watch covers the address and could repair it.
  static bool repair_at(uintptr_t address);

 private:
  bool repair(uintptr_t address);

  const uintptr_t base_;
  const std::size_t bytes_;
  const std::size_t page_;
  std::size_t windows_ = 0;  // repaired apart from the rest
  std::atomic<bool> broken_{false};
};

}  // namespace uroce::service
