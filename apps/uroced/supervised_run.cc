#include "uroced/supervised_run.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "pmd_glue/notes.h"
#include "uroced/daemon.h"
#include "uroced/notification.h"
#include "uroced/start_anew.h"
#include "uroced/supervised.h"

namespace uroce::daemon {

namespace {

void set_id(const char* name) { setenv(name, std::to_string(getpid()).c_str(), 1); }

/// The environment and the descriptor that a service manager gives (sd_notify(3), sd_listen_fds(3)).
void give(const SupervisedRun& run, pid_t supervisor) {
  tell_supervised({.supervisor = supervisor, .again = run.again});
  setenv("NOTIFY_SOCKET", run.notify_socket.c_str(), 1);
  setenv("FDSTORE", "1", 1);
  // The watchdog of a service manager above is for its main process, which passes on what the daemon says.
  const char* const watched = std::getenv("WATCHDOG_PID");
  if (watched != nullptr && std::atoi(watched) == supervisor) set_id("WATCHDOG_PID");
  if (run.estate < 0) return;
  if (run.estate == SD_LISTEN_FDS_START) {
    fcntl(run.estate, F_SETFD, 0);
  } else {
    dup2(run.estate, SD_LISTEN_FDS_START);
  }
  set_id("LISTEN_PID");
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_FDNAMES", kEstateName, 1);
}

}  // namespace

std::string own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

pid_t start_supervised(const SupervisedRun& run, const sigset_t& mask) {
  const pid_t supervisor = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  setpgid(0, 0);
  give(run, supervisor);
  end_with_supervisor();
  // A signal that comes before the daemon takes signals waits until then.
  sigset_t waiting = mask;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&waiting, signal);
  sigprocmask(SIG_SETMASK, &waiting, nullptr);
  become_program(run.program.c_str());
  become_program("/proc/self/exe");
  glue::write_line_to_stderr(
      fmt::format("uroced: cannot start {}: {}; --supervise needs /proc", run.program, std::strerror(errno)));
  _exit(kFailed);
}

pid_t parent_of(pid_t process) {
  std::ifstream lines(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(lines, line);) {
    int parent = 0;
    if (std::sscanf(line.c_str(), "PPid: %d", &parent) == 1) return parent;
  }
  return 0;
}

}  // namespace uroce::daemon
