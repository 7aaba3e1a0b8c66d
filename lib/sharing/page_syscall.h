// Calls that are safe while pages are guarded. A thread that stores into such a page waits, or even one that reads it.
// So the thread that ends the wait uses only memory of its own: no allocation, no errno, no static variable, no lazily
// bound function, no lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce::sharing {

/// The bytes of a page on x86-64. A variable might lie among the guarded pages.
constexpr std::size_t page_size() { return 4096; }

inline uintptr_t round_down(uintptr_t value, std::size_t unit) { return value & ~(uintptr_t{unit} - 1); }
inline uintptr_t round_up(uintptr_t value, std::size_t unit) { return round_down(value + unit - 1, unit); }

/// The system call's result, or -errno.
inline long raw_syscall(long number, uintptr_t a = 0, uintptr_t b = 0, uintptr_t c = 0, uintptr_t d = 0,
                        uintptr_t e = 0, uintptr_t f = 0) {
#ifdef __x86_64__
  register uintptr_t r10 __asm__("r10") = d;
  register uintptr_t r8 __asm__("r8") = e;
  register uintptr_t r9 __asm__("r9") = f;
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#else
#error "add the system call convention of this processor"
#endif
}

/// Wakes one thread that waits for the word to become something else than 0.
inline void set_and_wake(std::atomic<uint32_t>& word, uint32_t value = 1) {
  word.store(value, std::memory_order_release);
  raw_syscall(SYS_futex, reinterpret_cast<uintptr_t>(&word), FUTEX_WAKE_PRIVATE, 1);
}

inline void raw_copy(uintptr_t to, uintptr_t from, std::size_t length) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

template <class T>
uintptr_t word_of(T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}
/// The way back, for system calls: pages are numbers here, because their addresses come from /proc and from arithmetic.
inline void* memory_at(uintptr_t word) { return std::bit_cast<void*>(word); }

}  // namespace uroce::sharing
