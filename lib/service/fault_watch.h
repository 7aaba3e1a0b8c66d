// Mappings of files that someone else may cut short. A touch beyond the end raises SIGBUS (mmap(2)); the handler then
// puts zero pages under the whole mapping, so that the engine goes on, and notes that the mapping is broken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::service {

class FaultWatch {
 public:
  static constexpr int kSlots = 1 << 17;

  /// Installs the handler once; it passes on what is not its own. Watches [base, base + bytes) from here on. Returns a
  /// slot, or -1 when all are in use. Any thread.
  static int add(std::byte* base, std::size_t bytes);
  static void remove(int slot);
  static bool broken(int slot);
  /// How many mappings have broken so far.
  static uint64_t breaks();
};

}  // namespace uroce::service
