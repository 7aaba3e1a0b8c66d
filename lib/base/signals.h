// Chaining signal handlers.
#pragma once

#include <csignal>

namespace uroce {

/// Passes a signal on to the handler that was installed before ours. Call it from within our handler. If there was
/// none, it restores the default action: the faulting instruction runs again and faults under that action
/// (sigaction(2)).
inline void pass_on(const struct sigaction& previous, int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    return previous.sa_sigaction(signal, info, context);
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  sigaction(signal, &previous, nullptr);
}

}  // namespace uroce
