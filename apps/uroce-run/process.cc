#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace uroce::run {

namespace {

volatile sig_atomic_t child_pid = 0;

void forward(int signal) {
  const int kept = errno;
  if (child_pid > 0) kill(static_cast<pid_t>(child_pid), signal);
  errno = kept;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

[[noreturn]] void become_daemon(const std::filesystem::path& program, const std::string& socket,
                                const std::filesystem::path& log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // the parent ended before the line above
  setsid();                           // the terminal's Ctrl-C is for the program, not for the daemon
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execl(program.c_str(), "uroced", "--demo", "--socket", socket.c_str(), nullptr);
  _exit(127);
}

}  // namespace

DemoDaemon::DemoDaemon(const std::filesystem::path& program, const std::string& socket,
                       const std::filesystem::path& log) {
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid_ == 0) become_daemon(program, socket, log, parent);
}

DemoDaemon::~DemoDaemon() {
  using namespace std::chrono_literals;
  if (!alive()) return;
  kill(pid_, SIGTERM);
  for (int tries = 0; tries < 500 && alive(); ++tries) std::this_thread::sleep_for(10ms);
  if (!alive()) return;
  kill(pid_, SIGKILL);
  wait_for(pid_);
}

bool DemoDaemon::alive() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

int run_program(const std::vector<std::string>& command) {
  // The terminal sends these signals to the program too. This process must outlive it to clean up.
  constexpr std::array kForwarded = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  constexpr std::array kLeft = {SIGINT, SIGQUIT};
  for (const int signal : kLeft) std::signal(signal, SIG_IGN);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    for (const int signal : kLeft) std::signal(signal, SIG_DFL);
    execvp(command[0].c_str(), pointers(command).data());
    const int reason = errno;
    std::fprintf(stderr, "uroce-run: %s: %s\n", command[0].c_str(), std::strerror(reason));
    _exit(reason == ENOENT ? 127 : 126);
  }
  child_pid = pid;
  for (const int signal : kForwarded) std::signal(signal, forward);
  const int code = wait_for(pid);
  child_pid = 0;
  return code;
}

}  // namespace uroce::run
