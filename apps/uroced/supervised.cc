#include "uroced/supervised.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace uroce::daemon {

namespace {

/// The daemon's own id, which no process has that merely inherited the variable; its supervisor's; 1 in a later run.
constexpr const char* kSupervised = "UROCED_SUPERVISED";

}  // namespace

void tell_supervised(const Supervised& self) {
  setenv(kSupervised, fmt::format("{} {} {}", getpid(), self.supervisor, self.again ? 1 : 0).c_str(), 1);
}

std::optional<Supervised> read_supervised() {
  const char* const text = std::getenv(kSupervised);
  int own = 0;
  int supervisor = 0;
  int again = 0;
  if (text == nullptr || std::sscanf(text, "%d %d %d", &own, &supervisor, &again) != 3 || own != getpid()) return {};
  return Supervised{.supervisor = supervisor, .again = again != 0};
}

void end_with_supervisor() {
  const auto self = read_supervised();
  if (!self) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != self->supervisor) kill(getpid(), SIGTERM);
}

}  // namespace uroce::daemon
