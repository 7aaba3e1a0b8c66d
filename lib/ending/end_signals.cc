#include "ending/end_signals.h"

#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/end_request.h"

namespace uroce {

namespace {

EndRequest request;
void (*last_act_of_program)() = nullptr;

extern "C" void on_end_signal(int signal) {
  const int kept = errno;
  // It reads the clock by clock_gettime(2), which a signal handler may do.
  const Nanos now = std::chrono::steady_clock::now().time_since_epoch();
  if (request.take(now) == EndSignal::again) {
    if (last_act_of_program != nullptr) last_act_of_program();
    std::signal(signal, SIG_DFL);
    raise(signal);  // it arrives when this handler returns
  }
  errno = kept;
}

}  // namespace

void catch_end_signals(void (*last_act)()) {
  last_act_of_program = last_act;
  struct sigaction action{};
  action.sa_handler = on_end_signal;  // without SA_RESTART: waits end
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool end_asked() { return request.came(); }

}  // namespace uroce
