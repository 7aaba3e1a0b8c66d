#include "pmd_glue/fault_guard.h"

#include <csignal>
#include <mutex>

#include "base/signals.h"

namespace uroce::glue {

namespace detail {
thread_local sigjmp_buf* fault_guard = nullptr;
}

namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;

void on_fault(int signal, siginfo_t* info, void* context) {
  if (detail::fault_guard != nullptr) siglongjmp(*detail::fault_guard, 1);
  pass_on(signal == SIGBUS ? previous_bus : previous_segv, signal, info, context);
}

}  // namespace

void install_fault_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // SA_NODEFER: siglongjmp leaves the handler without restoring the signal mask.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

}  // namespace uroce::glue
