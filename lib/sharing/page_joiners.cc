#include "sharing/page_joiners.h"

#include <algorithm>
#include <climits>
#include <cstddef>

#include <linux/futex.h>
#include <sys/uio.h>

#include "sharing/page_syscall.h"
#include "sharing/thread_list.h"

// Only glibc 2.35 and later register an rseq area and define this.
extern "C" const std::ptrdiff_t __rseq_offset __attribute__((weak));

namespace uroce::sharing {
namespace {

constexpr std::size_t kBlockAlignment = 64;

// The first and third word of a thread control block have its own address (x86-64 psABI of TLS, tcbhead_t).
__attribute__((no_sanitize("address", "thread"))) bool is_block(const uint64_t* words, uintptr_t address) {
  return words[0] == address && words[2] == address;
}

// The kernel wakes at the thread id in the block. glibc does not publish its offset, so try every word.
template <class Do>
void for_words_of_block(uintptr_t block, uintptr_t first, uintptr_t end, const Do& each) {
  const uintptr_t from = std::max(block, first), to = std::min(block + kThreadBlockBytes, end);
  for (uintptr_t word = from; word < to; word += sizeof(uint32_t)) each(word);
  // Repeat where glibc 2.3x has it, to shorten the time between this search and the guard of the page: a thread that
  // begins to wait in between is missed.
  for (uintptr_t word = std::max(block + 0x2c0, first); word < std::min(block + 0x300, end); word += 4) each(word);
}

// The blocks that start in [first, end), which may be unmapped: read it through system calls.
template <class Do>
void for_blocks_outside(uintptr_t first, uintptr_t end, const Do& each) {
  alignas(8) unsigned char copy[8192];
  const auto self = static_cast<uintptr_t>(raw_syscall(SYS_getpid));
  for (uintptr_t from = round_down(first, kBlockAlignment); from < end;) {
    const std::size_t length = std::min(sizeof(copy), round_up(end, kBlockAlignment) - from);
    iovec local{copy, length}, remote{memory_at(from), length};
    const long got = raw_syscall(SYS_process_vm_readv, self, word_of(&local), 1, word_of(&remote), 1, 0);
    for (long i = 0; i + static_cast<long>(kBlockAlignment) <= got; i += kBlockAlignment) {
      const uintptr_t at = from + static_cast<uintptr_t>(i);
      if (at < end && is_block(reinterpret_cast<const uint64_t*>(copy + i), at)) each(at);
    }
    from = got > 0 ? from + static_cast<uintptr_t>(got) : round_down(from, page_size()) + page_size();
  }
}

// The rseq area is in the block, or at some distance below it (glibc 2.41).
uintptr_t below_block() {
  const std::ptrdiff_t rseq = &__rseq_offset != nullptr ? __rseq_offset : 0;
  return rseq < 0 ? static_cast<uintptr_t>(-rseq) : 0;
}

template <class Do>
void for_words_of_blocks(uintptr_t first, uintptr_t end, bool below, const Do& each) {
  if (below) {
    for_blocks_outside(first - kThreadBlockBytes, first,
                       [&](uintptr_t block) { for_words_of_block(block, first, end, each); });
  }
  for (uintptr_t block = first; (block = find_thread_block(block, end, end - first)) < end; block += kBlockAlignment) {
    for_words_of_block(block, first, end, each);
  }
}

}  // namespace

uintptr_t find_thread_block(uintptr_t from, uintptr_t end, std::size_t whole) {
  constexpr std::size_t kLittle = std::size_t{1} << 20;
  from = round_up(from, kBlockAlignment);
  if (whole <= kLittle) {
    uintptr_t found = end;
    for_blocks_outside(from, end, [&](uintptr_t block) { found = std::min(found, block); });
    return found;
  }
  for (uintptr_t at = from; at < end; at += kBlockAlignment) {
    if (is_block(static_cast<const uint64_t*>(memory_at(at)), at)) return at;
  }
  return end;
}

bool thread_block_reaches(uintptr_t first, uintptr_t end) {
  bool found = false;
  for_blocks_outside(first - kThreadBlockBytes, end + below_block(), [&](uintptr_t) { found = true; });
  return found;
}

// A thread registers its list of robust futexes, which lies in its control block (set_robust_list(2)).
std::optional<bool> thread_reaches(int tasks, uintptr_t first, uintptr_t end) {
  const auto list_of = [](pid_t thread) {
    uintptr_t head = 0, bytes = 0;
    const long code = raw_syscall(SYS_get_robust_list, static_cast<uintptr_t>(thread), word_of(&head), word_of(&bytes));
    return code == 0 ? head : 0;
  };
  const uintptr_t own = list_of(0), place = own - word_of(__builtin_thread_pointer());
  if (own == 0 || place >= kThreadBlockBytes) return std::nullopt;
  bool found = false, known = true;
  const bool listed = for_threads(tasks, [&](pid_t thread) {
    const uintptr_t list = list_of(thread);
    known = list != 0;
    const uintptr_t block = list - place;
    found = known && block - below_block() < end && first < block + kThreadBlockBytes;
    return known && !found;
  });
  if (!listed || !known) return std::nullopt;
  return found;
}

void move_joiners(uintptr_t at, std::size_t length, uintptr_t staging, bool below) {
  for_words_of_blocks(at, at + length, below, [&](uintptr_t word) {
    raw_syscall(SYS_futex, word, FUTEX_REQUEUE, 0, INT_MAX, staging + (word - at));
  });
}

void wake_joiners(uintptr_t at, std::size_t length) {
  for_words_of_blocks(at, at + length, true, [](uintptr_t word) { raw_syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX); });
}

}  // namespace uroce::sharing
