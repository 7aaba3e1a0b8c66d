// Finds the pages that have bytes to be moved. Safe while pages are guarded (page_syscall.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::sharing {

/// Not initialised: the threads that use it must not call memset(3), which is bound lazily.
struct PageRun {
  uintptr_t first, end;
};

/// The pages of [at, at + length) that are there, as runs by address.
class PresentPages {
 public:
  static constexpr std::size_t kMostPages = 512;

  /// `pagemap`: a descriptor of /proc/self/pagemap (proc_pid_pagemap(5)), or -1. Where it cannot tell, or for more than
  /// kMostPages, all pages count as there.
  PresentPages(int pagemap, uintptr_t at, std::size_t length);

  bool swapped() const { return swapped_; }  ///< some are swapped out
  bool empty() const { return count_ == 0; }
  bool all(std::size_t length) const { return count_ == 1 && runs_[0].end - runs_[0].first == length; }
  const PageRun* begin() const { return runs_.data(); }
  const PageRun* end() const { return runs_.data() + count_; }

 private:
  void add(uintptr_t first, uintptr_t end);

  std::array<PageRun, kMostPages / 2> runs_;  // not initialised: there are `count_`
  std::size_t count_ = 0;
  bool swapped_ = false;
};

}  // namespace uroce::sharing
