#include "sharing/thread_stop.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <new>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ptrace.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sharing/page_syscall.h"
#include "sharing/thread_list.h"

namespace uroce::sharing {
namespace {

constexpr timespec kPause{0, 50'000};  // between two looks at threads that have not stopped yet
constexpr int kMostPauses = 20'000;
constexpr int kMostPasses = 16;
constexpr timespec kLongestWait{20, 0};  // for the other process
constexpr std::size_t kMostExcepted = 4;

uintptr_t as_argument(int value) { return static_cast<uintptr_t>(static_cast<intptr_t>(value)); }

void wait_for(std::atomic<uint32_t>& word) {
  long result = 0;
  while (word.load(std::memory_order_acquire) == 0 && result != -ETIMEDOUT) {
    result = raw_syscall(SYS_futex, word_of(&word), FUTEX_WAIT_PRIVATE, 0, word_of(&kLongestWait));
  }
}

}  // namespace

// A process that shares the memory, because a thread cannot trace its own process. It shares the caller's thread block,
// so it makes raw system calls only.
struct ThreadStop::Helper {
  int tasks = -1;  ///< the directory of the threads
  pid_t except[kMostExcepted] = {};
  pid_t pid = -1;
  std::atomic<uint32_t> permitted{0}, stopped{0}, release{0};
  // The helper's, until it sets `stopped`.
  int others = 0;  ///< threads in the last pass
  int held = 0;    ///< seized and stopped

  static int run(void* self);
  int seize_new_threads();
  bool is_excepted(pid_t thread) const;
  static bool seize(pid_t thread);
  /// Returns how many have stopped.
  static int wait_until_stopped(int threads);
};

int ThreadStop::Helper::run(void* self) {
  auto& helper = *static_cast<Helper*>(self);
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  wait_for(helper.permitted);
  for (int pass = 0; pass < kMostPasses; ++pass) {  // a thread that still runs can start another one
    const int seized = helper.seize_new_threads();
    if (seized == 0) break;
    helper.held += wait_until_stopped(seized);
  }
  set_and_wake(helper.stopped);
  wait_for(helper.release);
  return 0;  // all threads are detached when their tracer ends
}

int ThreadStop::Helper::seize_new_threads() {
  int seized = 0;
  others = 0;
  const bool listed = for_threads(tasks, [&](pid_t thread) {
    if (is_excepted(thread)) return true;
    ++others;
    if (seize(thread)) ++seized;
    return true;
  });
  if (!listed) others = INT_MAX;
  return seized;
}

bool ThreadStop::Helper::is_excepted(pid_t thread) const {
  return std::find(std::begin(except), std::end(except), thread) != std::end(except);
}

// False for a thread that is traced already, by this helper or by a debugger, and for one that has ended.
bool ThreadStop::Helper::seize(pid_t thread) {
  if (raw_syscall(SYS_ptrace, PTRACE_SEIZE, as_argument(thread), 0, 0) != 0) return false;
  raw_syscall(SYS_ptrace, PTRACE_INTERRUPT, as_argument(thread), 0, 0);
  return true;
}

int ThreadStop::Helper::wait_until_stopped(int threads) {
  int stopped = 0;
  for (int pauses = 0; stopped < threads && pauses < kMostPauses;) {
    const long thread = raw_syscall(SYS_wait4, as_argument(-1), 0, __WALL | WNOHANG, 0);
    if (thread > 0) ++stopped;
    if (thread < 0) break;
    if (thread == 0) {
      raw_syscall(SYS_nanosleep, word_of(&kPause), 0);
      ++pauses;
    }
  }
  return stopped;
}

ThreadStop::ThreadStop(uintptr_t stack, std::initializer_list<pid_t> except) : helper_(new(memory_at(stack)) Helper) {
  std::copy_n(except.begin(), std::min(except.size(), kMostExcepted), helper_->except);
  helper_->tasks = static_cast<int>(
      raw_syscall(SYS_openat, as_argument(AT_FDCWD), word_of("/proc/self/task"), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (helper_->tasks < 0) return;
  helper_->pid = ::clone(Helper::run, memory_at(stack + kStackBytes), CLONE_VM | CLONE_FS | CLONE_FILES, helper_);
  if (helper_->pid < 0) return;
  raw_syscall(SYS_prctl, PR_SET_PTRACER, as_argument(helper_->pid));  // where Yama asks for it
  set_and_wake(helper_->permitted);
  wait_for(helper_->stopped);
}

// The helper holds threads that have ended since, too. A thread that did not stop in time is not among those that it
// holds.
bool ThreadStop::complete() const {
  return helper_->pid > 0 && helper_->stopped.load(std::memory_order_acquire) != 0 && helper_->others <= helper_->held;
}

ThreadStop::~ThreadStop() {
  if (helper_->pid > 0) {
    set_and_wake(helper_->release);
    raw_syscall(SYS_wait4, as_argument(helper_->pid), 0, __WALL, 0);
  }
  if (helper_->tasks >= 0) raw_syscall(SYS_close, as_argument(helper_->tasks));
}

}  // namespace uroce::sharing
