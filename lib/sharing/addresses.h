// Addresses that were mapped for the library.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {

/// Unmaps what is left of them at the end.
class Addresses {
 public:
  /// `first` 0: none.
  Addresses(uintptr_t first, std::size_t length) : at_(first), length_(length) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (at_ != 0 && length_ != 0) ::munmap(memory_at(at_), length_);
  }

  uintptr_t at() const { return at_; }
  /// The first bytes belong to somebody else now.
  void give(std::size_t length) {
    if (at_ == 0) return;
    at_ += length;
    length_ -= length;
  }

 private:
  uintptr_t at_;
  std::size_t length_;
};

/// New private memory without pages; 0 with errno.
inline uintptr_t map_private(std::size_t length, int protection) {
  void* const at = ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : word_of(at);
}

}  // namespace uroce::sharing
