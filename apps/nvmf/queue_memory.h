// The receive buffers of a queue: for each slot a submission queue entry, and the data behind it on pages of its own,
// as backends without a cache want it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

class QueueMemory {
 public:
  /// memory() is empty when the system has none.
  explicit QueueMemory(uint32_t slots) : slots_(slots) {
    const std::size_t bytes = std::size_t{slots} * (kInCapsuleBytes + sizeof(nvme::Command));
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) memory_ = {static_cast<std::byte*>(memory), bytes};
  }
  QueueMemory(QueueMemory&& other) noexcept : memory_(std::exchange(other.memory_, {})), slots_(other.slots_) {}
  QueueMemory& operator=(QueueMemory&&) = delete;
  ~QueueMemory() {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  }

  std::span<std::byte> memory() const { return memory_; }
  std::size_t data_offset(uint16_t slot) const { return std::size_t{slot} * kInCapsuleBytes; }
  std::size_t entry_offset(uint16_t slot) const {
    return std::size_t{slots_} * kInCapsuleBytes + std::size_t{slot} * sizeof(nvme::Command);
  }
  std::byte* data(uint16_t slot) const { return memory_.data() + data_offset(slot); }
  std::byte* entry(uint16_t slot) const { return memory_.data() + entry_offset(slot); }

 private:
  std::span<std::byte> memory_{};
  uint32_t slots_;
};

}  // namespace uroce::nvmf
