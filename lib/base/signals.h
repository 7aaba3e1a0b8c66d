// A handler that stands in front of others.
#pragma once

#include <csignal>

namespace uroce {

/// Hands a signal on to who had it before; called by a handler, from a handler. With the default action the
/// instruction that faulted runs again, and faults under that (sigaction(2)).
inline void pass_on(const struct sigaction& previous, int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    return previous.sa_sigaction(signal, info, context);
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  sigaction(signal, &previous, nullptr);
}

}  // namespace uroce
