#include "uroced/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/end_request.h"

namespace uroce::daemon {

namespace {

EndRequest request;

Nanos now() { return std::chrono::steady_clock::now().time_since_epoch(); }

extern "C" void leave_now(int) {
  if (request.take(now()) != EndSignal::again) return;
  constexpr char kText[] = "uroced: second signal; ending at once\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(1);
}

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  signal(SIGPIPE, SIG_IGN);
  fd_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
  bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

Signals::~Signals() {
  close(fd_);
  close(bell_);
}

void Signals::ring() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(bell_, &one, sizeof one);
}

std::optional<int> Signals::wait(std::chrono::milliseconds limit) {
  signalfd_siginfo info{};
  const auto take = [&]() -> std::optional<int> {
    uint64_t count = 0;
    if (read(fd_, &info, sizeof info) == ssize_t{sizeof info}) return static_cast<int>(info.ssi_signo);
    if (read(bell_, &count, sizeof count) == ssize_t{sizeof count}) return kBell;
    return std::nullopt;
  };
  if (const auto taken = take(); taken || limit == std::chrono::milliseconds(0)) return taken;
  pollfd both[] = {{fd_, POLLIN, 0}, {bell_, POLLIN, 0}};
  poll(both, 2, static_cast<int>(std::max<int64_t>(limit.count(), -1)));
  return take();
}

void Signals::leave_at_a_later_one() {
  // Signals that wait belong to the request that is being handled, however long this process had no processor.
  while (wait(std::chrono::milliseconds(0))) {
  }
  request.take(now());
  struct sigaction action{};
  action.sa_handler = leave_now;
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&ending, signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
}

}  // namespace uroce::daemon
