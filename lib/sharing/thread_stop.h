// Stops the other threads of the process for a moment, as a debugger does (ptrace(2), PTRACE_INTERRUPT).
//
// The kernel stores into a thread's control block on its own: the processor's number when it is scheduled (rseq(2)),
// and 0 when the thread ends. Without privilege such a store into a write-protected page does not wait: it kills the
// process. A futex(2) on such a page fails. So threads are stopped while a page with a control block is replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <sys/types.h>

namespace uroce::sharing {

/// The threads run on when it is destroyed. A system call that a stopped thread waits in continues afterwards; the few
/// that signal(7) lists under "Interruption of system calls by stop signals", epoll_wait(2) for one, give EINTR.
class ThreadStop {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;

  /// Waits until the threads are stopped, for a thread that does not stop 1 s at most. Stops none where ptrace(2) is
  /// not permitted, and none that a debugger traces. `stack`: kStackBytes for a helper process, not among the pages to
  /// replace. `except`: at most 4 thread ids that run on, the caller's among them.
  ThreadStop(uintptr_t stack, std::initializer_list<pid_t> except);
  /// Whether every other thread is stopped.
  bool complete() const;
  ThreadStop(const ThreadStop&) = delete;
  ThreadStop& operator=(const ThreadStop&) = delete;
  ~ThreadStop();

 private:
  struct Helper;
  Helper* helper_;
};

}  // namespace uroce::sharing
