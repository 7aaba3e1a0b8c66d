#include "uroced/supervisor.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "message/connection.h"
#include "pmd_glue/notes.h"
#include "uroced/crash_loop.h"
#include "uroced/daemon.h"
#include "uroced/estate_desk.h"
#include "uroced/notify_socket.h"
#include "uroced/supervised_run.h"

namespace uroce::daemon {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// For processes that a killed daemon leaves behind, to pass what they have: longer than Keeper::kPatience.
constexpr std::chrono::seconds kLeftBehindLimit{6};
/// For the kernel to end them after SIGKILL.
constexpr std::chrono::seconds kKillLimit{1};

void say(std::string_view text) { glue::write_line_to_stderr(fmt::format("uroced: {}", text)); }

/// As a shell has it.
int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

class Supervisor {
 public:
  Supervisor(NotifySocket socket, bool stays) : desk_(std::move(socket)), stays_(stays) {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&taken, signal);
    sigset_t blocked = taken;
    sigaddset(&blocked, SIGPIPE);  // of a closed stderr
    sigprocmask(SIG_BLOCK, &blocked, &mask_before_);
    signal(SIGCHLD, SIG_DFL);
    signals_ = message::Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    // Processes that a killed daemon leaves behind become this one's children.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }

  int run() {
    for (bool again = false;; again = true) {
      const auto begin = Clock::now();
      const pid_t daemon = start(again);
      if (daemon < 0) return kFailed;
      const int status = wait_for(daemon);
      const auto lasted = Clock::now() - begin;
      wait_for_left_behind(daemon);
      if (!goes_on(daemon, status, lasted)) return leave(status);
    }
  }

 private:
  pid_t start(bool again) {
    daemon_ = start_supervised(
        {.program = program_, .notify_socket = desk_.socket().name(), .estate = desk_.estate(), .again = again},
        mask_before_);
    if (daemon_ < 0) say(fmt::format("cannot start the daemon's process: fork: {}", std::strerror(errno)));
    return daemon_;
  }

  /// The status of its end (wait(2)).
  int wait_for(pid_t daemon) {
    for (;;) {
      siginfo_t ended{};
      if (waitid(P_PID, static_cast<id_t>(daemon), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          ended.si_pid == daemon) {
        // While it is not waited for, no other process gets its id.
        desk_.listen(daemon_);
        int status = 0;
        waitpid(daemon, &status, 0);
        daemon_ = 0;
        return status;
      }
      reap_others(daemon);
      look(milliseconds(-1));
    }
  }

  /// All of the group that it led.
  void wait_for_left_behind(pid_t daemon) {
    bool killed = false;
    for (auto until = Clock::now() + kLeftBehindLimit;;) {
      reap_others(0);
      siginfo_t some{};
      if (waitid(P_PGID, static_cast<id_t>(daemon), &some, WEXITED | WNOHANG | WNOWAIT) != 0) return;
      const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
      if (!killed && (asked_ || left <= milliseconds(0))) {
        kill(-daemon, SIGKILL);
        killed = true;
        until = Clock::now() + kKillLimit;
      } else if (left <= milliseconds(0)) {
        return;
      } else {
        look(left);
      }
    }
  }

  /// Processes that this one adopted. Those that are its own have said what they have by then.
  void reap_others(pid_t daemon) {
    for (siginfo_t ended{};; ended = {}) {
      if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
      if (ended.si_pid == 0 || ended.si_pid == daemon) return;
      desk_.listen(daemon_);
      waitpid(ended.si_pid, nullptr, 0);
    }
  }

  /// Whether another run is to follow. Says what happened.
  bool goes_on(pid_t daemon, int status, Clock::duration lasted) {
    look(milliseconds(0));
    const bool crashed = WIFSIGNALED(status);
    if (asked_ || (!crashed && (desk_.estate() < 0 || status != 0))) return false;
    const std::string what = crashed ? fmt::format("process {} was killed by signal {}", daemon, WTERMSIG(status))
                                     : fmt::format("process {} has ended", daemon);
    if (desk_.estate() < 0) {
      say(fmt::format("{}, and left nothing to start again with", what));
    } else if (crashed && !crashes_.start_again(lasted)) {
      say(fmt::format("{}, the last of {} that lasted less than {} s each; not starting again", what,
                      CrashLoop::kCrashes, CrashLoop::kShort.count()));
    } else {
      say(fmt::format("{}; starting again with the queue pairs of its programs", what));
      return true;
    }
    return false;
  }

  int leave(int status) {
    desk_.drop();
    while (stays_ && status == 0 && !asked_) {
      reap_others(0);
      look(milliseconds(-1));
    }
    return exit_code(status);
  }

  /// Until something happens, or `limit` (negative: for ever).
  void look(milliseconds limit) {
    pollfd both[] = {{desk_.socket().fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    poll(both, 2, static_cast<int>(limit.count()));
    desk_.listen(daemon_);
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == ssize_t{sizeof info}) pass_on(static_cast<int>(info.ssi_signo));
  }

  void pass_on(int signal) {
    const bool end = signal == SIGTERM || signal == SIGINT;
    asked_ = asked_ || end;
    // By SIGTERM the daemon would leave its clients to a next run.
    if (daemon_ > 0 && signal != SIGCHLD) kill(daemon_, end ? SIGINT : signal);
  }

  EstateDesk desk_;
  const bool stays_;
  const std::string program_ = own_program();
  message::Fd signals_;
  sigset_t mask_before_{};
  CrashLoop crashes_;
  pid_t daemon_ = 0;    ///< 0: between two runs
  bool asked_ = false;  ///< to end
};

}  // namespace

int supervise(bool stays) {
  auto socket = NotifySocket::open();
  if (!socket) {
    say(socket.error().text);
    return kFailed;
  }
  return Supervisor(std::move(*socket), stays).run();
}

}  // namespace uroce::daemon
