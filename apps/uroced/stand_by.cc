#include "uroced/stand_by.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::daemon {

namespace {

/// As a shell has it.
int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// The end of the daemon, if it has ended. Other processes may be this one's children in a container.
bool reap(pid_t daemon, int& status) {
  int one = 0;
  bool ended = false;
  for (pid_t child = 0; (child = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (child != daemon) continue;
    ended = true;
    status = one;
  }
  return ended;
}

[[noreturn]] void watch(pid_t daemon, const sigset_t& signals) {
  bool asked_to_end = false;
  bool ended = false;
  for (int status = 0;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&signals, &info);
    if (signal == SIGTERM || signal == SIGINT) {
      if (ended) _exit(EXIT_SUCCESS);
      asked_to_end = true;
    }
    if (signal > 0 && signal != SIGCHLD && !ended) kill(daemon, signal);
    if (ended || !reap(daemon, status)) continue;
    ended = true;
    if (asked_to_end || status != 0) _exit(exit_code(status));
  }
}

}  // namespace

void stand_by() {
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child > 0) watch(child, signals);
  if (child < 0) std::perror("uroced: fork");
  // Without the first process nobody would pass signals on.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (child == 0 && getppid() != parent) raise(SIGTERM);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace uroce::daemon
