#include "tests/support/system_calls.h"

#include <csignal>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::test {
namespace {

// No piece makes this call. It stands before and behind each.
constexpr long kMark = SYS_getppid;

[[noreturn]] void be_traced(std::span<const std::function<void()>> pieces) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0 || raise(SIGSTOP) != 0) _exit(1);
  syscall(kMark);
  for (const auto& piece : pieces) {
    piece();
    syscall(kMark);
  }
  _exit(0);
}

// Lets the child go on to its next system call, or out of one. False: it ended, or met a signal.
bool go_on(pid_t child) {
  int status = 0;
  return ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0 && waitpid(child, &status, 0) == child &&
         WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
}

std::vector<std::size_t> watch(pid_t child, std::size_t pieces) {
  std::vector<std::size_t> counts;
  std::size_t calls = 0;
  bool begun = false;
  while (counts.size() < pieces && go_on(child)) {
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) return {};
    // A machine whose clock is not in the vDSO asks the kernel for the time.
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr == SYS_clock_gettime) continue;
    if (info.entry.nr != static_cast<uint64_t>(kMark)) {
      ++calls;
      continue;
    }
    if (begun) counts.push_back(calls);
    begun = true;
    calls = 0;
  }
  return counts.size() == pieces ? counts : std::vector<std::size_t>{};
}

}  // namespace

std::optional<std::vector<std::size_t>> count_system_calls(std::span<const std::function<void()>> pieces) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) be_traced(pieces);
  std::optional<std::vector<std::size_t>> counts;
  int status = 0;
  if (waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
      ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD) == 0) {
    counts = watch(child, pieces.size());
  }
  // It goes on to its end, unless it has ended already.
  ptrace(PTRACE_DETACH, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  return counts;
}

}  // namespace uroce::test
