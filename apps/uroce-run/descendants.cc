#include "descendants.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

#include "message/socket_lock.h"

namespace uroce::run {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kGrace = 2s;

/// 0: there is no such process.
pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // "PID (NAME) STATE PARENT ...", and a name may have brackets, too (proc(5)).
  const auto end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream rest(line.substr(end + 1));
  std::string state;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

/// A process by its descriptor: its number may be another's once it has ended.
struct Running {
  message::Fd fd;
  Ended ended;

  bool send(int signal) {
    // Debian 12's <sys/pidfd.h> is for C alone.
    if (syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) != 0) return false;
    ended.signal = signal;
    return true;
  }
};

/// Whether it has ended by then.
bool wait_for_end(const Running& one, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    pollfd event{.fd = one.fd.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&event, 1, static_cast<int>(std::max(left, 0ms).count()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool is_descendant(pid_t pid) {
  const pid_t self = getpid();
  while (pid > 1 && pid != self) pid = parent_of(pid);
  return pid == self;
}

std::vector<Ended> end_descendants(const std::vector<pid_t>& pids) {
  std::vector<Running> all;
  for (const pid_t pid : pids) {
    message::Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (fd && pid != getpid() && is_descendant(pid)) all.push_back({std::move(fd), {.pid = pid}});
  }
  for (Running& one : all) one.send(SIGTERM);
  const auto until = Clock::now() + kGrace;
  for (Running& one : all) {
    if (wait_for_end(one, until) || !one.send(SIGKILL)) continue;
    wait_for_end(one, Clock::now() + kGrace);
  }
  std::vector<Ended> out;
  for (const Running& one : all) {
    out.push_back(one.ended);
    waitpid(one.ended.pid, nullptr, WNOHANG);  // an orphan is this process's child
  }
  return out;
}

}  // namespace uroce::run
