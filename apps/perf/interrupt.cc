#include "perf/interrupt.h"

#include <csignal>

#include "ending/end_signals.h"

namespace uroce::perf {

void catch_interrupts() {
  catch_end_signals();
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return end_asked(); }

}  // namespace uroce::perf
