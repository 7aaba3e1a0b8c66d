#include "uroced/keeper.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::daemon {

namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 20;
/// For the keeper to end once it is told to.
constexpr int kEndLimitMs = 1000;
constexpr std::size_t kGuardBytes = std::size_t{1} << 16;  // at its end; the pages of some processors are so large

std::unexpected<Error> cannot_start(const char* call) {
  const int code = errno;
  return fail(code, fmt::format("cannot start the process that outlives a crash: {}: {}", call, std::strerror(code)));
}

extern "C" void give_up(int) {
  constexpr std::string_view kText = "uroced: what programs had could not be kept after the crash\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(EXIT_FAILURE);
}

}  // namespace

Result<void> Keeper::start(std::function<void()> rescue) {
  rescue_ = std::move(rescue);
  daemon_ = message::Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!daemon_) return cannot_start("pidfd_open");
  bell_ = message::Fd(eventfd(0, EFD_CLOEXEC));
  if (!bell_) return cannot_start("eventfd");
  {
    void* const made =
        mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (made == MAP_FAILED) return cannot_start("mmap");
    stack_ = static_cast<std::byte*>(made);
    mprotect(stack_, kGuardBytes, PROT_NONE);
  }
  // Signals are for the daemon. The C library's clone() touches nothing of the calling thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int process = -1;
  id_ = clone(wait_for_death, stack_ + kStackBytes, kCloneFlags, this, &process);
  const int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  process_ = message::Fd(process);
  errno = code;
  return id_ > 0 ? Result<void>() : cannot_start("clone");
}

void Keeper::dismiss() {
  if (id_ < 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto rung = write(bell_.get(), &one, sizeof one);
  pollfd end{process_.get(), POLLIN, 0};
  const bool ended = poll(&end, 1, kEndLimitMs) == 1;
  const pid_t id = std::exchange(id_, -1);
  if (!ended) return;  // somebody has stopped it; it ends when it goes on
  waitpid(id, nullptr, __WALL);
  munmap(std::exchange(stack_, nullptr), kStackBytes);
}

// The thread-local memory is the main thread's as long as that lives. So only bare system calls are made, which change
// errno if they fail alone.
int Keeper::wait_for_death(void* keeper) {
  auto& self = *static_cast<Keeper*>(keeper);
  syscall(SYS_prctl, PR_SET_NAME, "uroced-keeper", 0, 0, 0);
  pollfd either[] = {{self.bell_.get(), POLLIN, 0}, {self.daemon_.get(), POLLIN, 0}};
  while (syscall(SYS_ppoll, either, 2, nullptr, nullptr, 0) < 1) {
  }
  if (either[0].revents == 0) self.run_rescue();
  _exit(EXIT_SUCCESS);
}

void Keeper::run_rescue() {
  struct sigaction limit{};
  limit.sa_handler = give_up;
  sigaction(SIGALRM, &limit, nullptr);
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaddset(&ending, signal);
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
  alarm(static_cast<unsigned>(kPatience.count()));
  try {
    rescue_();
  } catch (...) {
    give_up(0);
  }
}

}  // namespace uroce::daemon
