#include "pmd_glue/fault_guard.h"

#include <csignal>
#include <mutex>

namespace uroce::glue {

namespace detail {
thread_local sigjmp_buf* fault_guard = nullptr;
}

namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;

void on_fault(int signal, siginfo_t* info, void* context) {
  if (detail::fault_guard != nullptr) siglongjmp(*detail::fault_guard, 1);
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    return previous.sa_sigaction(signal, info, context);
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  // The instruction runs again and faults under the default action.
  sigaction(signal, &previous, nullptr);
}

}  // namespace

void install_fault_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // SA_NODEFER: siglongjmp leaves the handler without giving the signal mask back.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

}  // namespace uroce::glue
