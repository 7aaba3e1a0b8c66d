#include "perf/interrupt.h"

#include <csignal>

namespace uroce::perf {
namespace {

volatile std::sig_atomic_t caught = 0;

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_flags = SA_RESETHAND;  // a second ^C ends the process at once
  action.sa_handler = [](int) { caught = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return caught != 0; }

}  // namespace uroce::perf
