#include "uroced/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace uroce::daemon {
namespace {

constexpr std::chrono::milliseconds kNow{0};

/// The exit code of a process that does this; the tests' own signals stay as they are.
int exit_code_of(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) _exit(act());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Signals, BothSignalsOfTimeoutAreOneRequest) {
  const int code = exit_code_of([] {
    Signals signals;
    // To the program, and then to its group: the second may wait, or come once the end has begun.
    raise(SIGTERM);
    if (signals.wait(kNow) != SIGTERM) return 10;
    raise(SIGTERM);
    signals.leave_at_a_later_one();
    raise(SIGTERM);
    raise(SIGINT);
    return 42;
  });
  EXPECT_EQ(code, 42);
}

TEST(Signals, OneThatWaitsDoesNotCountAsALaterOne) {
  const int code = exit_code_of([] {
    Signals signals;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) raise(signal);
    signals.leave_at_a_later_one();
    return signals.wait(kNow) ? 11 : 42;
  });
  EXPECT_EQ(code, 42);
}

}  // namespace
}  // namespace uroce::daemon
