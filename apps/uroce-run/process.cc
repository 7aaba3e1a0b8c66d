#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

namespace uroce::run {

namespace {

volatile sig_atomic_t child_pid = 0;
volatile sig_atomic_t held = 0;

/// Children of this process that ended, by reap(), with their status.
std::map<pid_t, int> reaped;

constexpr auto kDaemonEnds = std::chrono::seconds(5);
constexpr auto kAskIfEnded = std::chrono::milliseconds(10);

constexpr std::array kForwarded = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
/// The terminal sends these to the program, too, once it runs. This process must outlive it to clean up.
constexpr std::array kOfTerminal = {SIGINT, SIGQUIT};

void keep(int signal) {
  if (child_pid == 0) held = signal;
}

void forward(int signal) {
  const int kept = errno;
  keep(signal);
  if (child_pid > 0) kill(static_cast<pid_t>(child_pid), signal);
  errno = kept;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction now{};
  if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) return;
  struct sigaction wanted{};
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  sigaction(signal, &wanted, nullptr);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Takes leave of all children that have ended, orphans of others among them.
void reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) reaped[pid] = status;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (!reaped.contains(pid) && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (const auto found = reaped.find(pid); found != reaped.end()) status = found->second;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Returns when the program has ended, or when nothing needs to be watched any more.
void watch_until_end(pid_t pid, std::vector<Watch> watches, bool reaps) {
  // Debian 12's <sys/pidfd.h> is for C alone.
  const message::Fd ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  while (ended && (reaps || !watches.empty())) {
    if (reaps) reap();
    std::vector<pollfd> waited{{.fd = ended.get(), .events = POLLIN, .revents = 0}};
    for (const Watch& watch : watches) {
      for (const int fd : watch.fds) waited.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    if (poll(waited.data(), waited.size(), -1) < 0) continue;  // a signal
    if (waited[0].revents != 0) return;
    auto next = waited.begin() + 1;
    std::erase_if(watches, [&next](const Watch& watch) {
      const auto first = std::exchange(next, next + static_cast<std::ptrdiff_t>(watch.fds.size()));
      const bool readable = std::any_of(first, next, [](const pollfd& each) { return each.revents != 0; });
      return readable && !watch.changed();
    });
  }
}

/// The lock stays open; nothing else that this process or its caller has open may live as long as the daemon.
[[noreturn]] void become_daemon(const std::filesystem::path& program, const message::SocketOwner& owner,
                                const std::filesystem::path& log, const std::vector<std::string>& options) {
  constexpr int kLock = 3;
  setsid();  // the terminal's Ctrl-C is for the program, not for the daemon
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  const int lock = owner.file().fd();
  if (lock == kLock) fcntl(lock, F_SETFD, 0);
  if (lock != kLock) dup2(lock, kLock);
  close_range(kLock + 1, ~0U, 0);
  setenv("UROCED_LOCK", std::to_string(kLock).c_str(), 1);
  std::vector<std::string> words{"uroced", "--demo", "--socket", std::filesystem::absolute(owner.socket()).string()};
  words.insert(words.end(), options.begin(), options.end());
  if (chdir("/") == 0) execv(program.c_str(), pointers(words).data());
  _exit(127);
}

}  // namespace

DemoDaemon::DemoDaemon(const std::filesystem::path& program, message::SocketOwner owner,
                       const std::filesystem::path& log, const std::vector<std::string>& options) {
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid_ == 0) become_daemon(program, owner, log, options);
  owner.leave_file();
}

bool DemoDaemon::alive() {
  if (pid_ > 0 && (reaped.contains(pid_) || waitpid(pid_, nullptr, WNOHANG) == pid_)) pid_ = -1;
  return pid_ > 0;
}

void DemoDaemon::end() {
  if (!alive()) return;
  ::kill(pid_, SIGTERM);
  const auto limit = std::chrono::steady_clock::now() + kDaemonEnds;
  while (alive() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(kAskIfEnded);
  kill();
}

void DemoDaemon::kill() {
  if (!alive()) return;
  ::kill(pid_, SIGKILL);
  wait_for(pid_);
}

void hold_signals() {
  for (const int signal : kForwarded) handle(signal, forward);
  for (const int signal : kOfTerminal) handle(signal, keep);
}

int held_signal() { return held; }

int run_program(const std::vector<std::string>& command, std::vector<Watch> watches, bool reaps) {
  if (reaps) handle(SIGCHLD, [](int /*signal*/) {});  // it ends the wait of watch_until_end()
  const pid_t self = getpid(), pid = fork();
  if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(128 + SIGKILL);  // it was killed before that
    execvp(command[0].c_str(), pointers(command).data());
    const int reason = errno;
    std::fprintf(stderr, "uroce-run: %s: %s\n", command[0].c_str(), std::strerror(reason));
    _exit(reason == ENOENT ? 127 : 126);
  }
  child_pid = pid;
  if (held != 0) kill(pid, held);
  watch_until_end(pid, std::move(watches), reaps);
  const int code = wait_for(pid);
  child_pid = -1;  // a signal that comes now is for nobody
  return code;
}

}  // namespace uroce::run
