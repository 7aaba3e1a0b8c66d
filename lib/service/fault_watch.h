// Mappings of files that another process may truncate. An access beyond the end raises SIGBUS (mmap(2)); the handler
// then puts zero pages under the whole mapping, so that the engine continues, and marks the mapping as broken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::service {

class FaultWatch {
 public:
  static constexpr int kSlots = 1 << 17;

  /// Watches [base, base + bytes) from now on. Returns a slot, or -1 when all are in use. The first call installs the
  /// handler, which passes faults elsewhere on to the previous one. Any thread.
  static int add(std::byte* base, std::size_t bytes);
  static void remove(int slot);
  static bool broken(int slot);
  /// The number of mappings broken so far.
  static uint64_t breaks();
};

}  // namespace uroce::service
