// The threads of this process. Safe while pages are guarded (page_syscall.h).
#pragma once

#include <array>
#include <cstddef>

#include <dirent.h>
#include <unistd.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {

/// Calls `each(thread id)` for each thread until it returns false. `tasks`: a descriptor of /proc/self/task. False
/// where the directory cannot be read. A thread that starts during the call may be missing.
template <class Each>
bool for_threads(int tasks, const Each& each) {
  alignas(dirent64) std::array<char, 2048> entries;  // not initialised: no call of memset(3)
  const auto directory = static_cast<uintptr_t>(tasks);
  if (raw_syscall(SYS_lseek, directory, 0, SEEK_SET) != 0) return false;
  for (;;) {
    const long bytes = raw_syscall(SYS_getdents64, directory, word_of(entries.data()), entries.size());
    if (bytes <= 0) return bytes == 0;
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      pid_t thread = 0;
      for (const char* digit = entry->d_name; *digit >= '0' && *digit <= '9'; ++digit) {
        thread = thread * 10 + (*digit - '0');
      }
      if (thread != 0 && !each(thread)) return true;
    }
  }
}

}  // namespace uroce::sharing
