#include "sharing/page_joiners.h"

#include <algorithm>
#include <climits>

#include <linux/futex.h>
#include <sys/uio.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kBlockAlignment = 64;

// The first and third word of a thread control block have its own address (x86-64 psABI of TLS, tcbhead_t).
[[gnu::no_sanitize("address", "thread")]] bool is_block(const uint64_t* words, uintptr_t address) {
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

template <class Do>
void for_words_of_blocks(uintptr_t first, uintptr_t end, const Do& each) {
  // A block may start before the pages, where memory may be unmapped: read it through a system call.
  alignas(8) unsigned char before[kThreadBlockBytes];
  const uintptr_t from = first - kThreadBlockBytes;
  iovec local{before, kThreadBlockBytes}, remote{reinterpret_cast<void*>(from), kThreadBlockBytes};
  const long self = raw_syscall(SYS_getpid);
  const long got =
      raw_syscall(SYS_process_vm_readv, static_cast<uintptr_t>(self), word_of(&local), 1, word_of(&remote), 1, 0);
  if (got == static_cast<long>(kThreadBlockBytes)) {
    for (std::size_t i = 0; i < kThreadBlockBytes; i += kBlockAlignment) {
      if (is_block(reinterpret_cast<const uint64_t*>(before + i), from + i)) {
        for_words_of_block(from + i, first, end, each);
      }
    }
  }
  for (uintptr_t block = first; (block = find_thread_block(block, end)) < end; block += kBlockAlignment) {
    for_words_of_block(block, first, end, each);
  }
}

}  // namespace

uintptr_t find_thread_block(uintptr_t from, uintptr_t end) {
  for (uintptr_t at = round_up(from, kBlockAlignment); at < end; at += kBlockAlignment) {
    if (is_block(reinterpret_cast<const uint64_t*>(at), at)) return at;
  }
  return end;
}

void move_joiners(uintptr_t at, std::size_t length, uintptr_t staging) {
  for_words_of_blocks(at, at + length, [&](uintptr_t word) {
    raw_syscall(SYS_futex, word, FUTEX_REQUEUE, 0, INT_MAX, staging + (word - at));
  });
}

void wake_joiners(uintptr_t at, std::size_t length) {
  for_words_of_blocks(at, at + length, [](uintptr_t word) { raw_syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX); });
}

}  // namespace uroce::sharing
