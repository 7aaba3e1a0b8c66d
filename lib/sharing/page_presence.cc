#include "sharing/page_presence.h"

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62;  // proc_pid_pagemap(5)

}  // namespace

PresentPages::PresentPages(int pagemap, uintptr_t at, std::size_t length) {
  const std::size_t page = page_size(), pages = length / page;
  std::array<uint64_t, kMostPages> entries;
  const std::size_t bytes = pages * sizeof(uint64_t);
  const bool told = pagemap >= 0 && pages <= kMostPages &&
                    raw_syscall(SYS_pread64, static_cast<uintptr_t>(pagemap), word_of(entries.data()), bytes,
                                at / page * sizeof(uint64_t)) == static_cast<long>(bytes);
  if (!told) add(at, at + length);
  for (std::size_t i = 0; told && i < pages; ++i) {
    if ((entries[i] & (kPresent | kSwapped)) == 0) continue;
    swapped_ = swapped_ || (entries[i] & kSwapped) != 0;
    add(at + i * page, at + (i + 1) * page);
  }
}

void PresentPages::add(uintptr_t first, uintptr_t end) {
  if (count_ > 0 && runs_[count_ - 1].end == first) {
    runs_[count_ - 1].end = end;
  } else {
    runs_[count_++] = {first, end};
  }
}

}  // namespace uroce::sharing
