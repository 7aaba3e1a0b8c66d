#include "pmd_glue/wake_priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace uroce::glue {

namespace {

/// sched_setattr(2). <linux/sched/types.h> of Linux 6.1 cannot stand beside <sched.h>.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;  ///< SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  ///< ns
  uint64_t deadline = 0;
  uint64_t period = 0;
};

constexpr int kHighestPriority = -20;
/// The shortest slice that Linux lets a thread ask for, since 6.12. A thread with shorter slices has its turn sooner.
constexpr uint64_t kShortestSlice = 100'000;

/// From Linux 6.6 on, a scheduling group takes along what it has run too much or too little when its weight changes.
/// Threads of very different priorities make the weight of their group (a session's, a control group's) jump, and then
/// whole groups wait for seconds: on 6.18, engines at nice -5, -10, -15 and -20 kept those of another program from the
/// core.
bool groups_keep_lag() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  if (uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return true;
  return major > 6 || (major == 6 && minor >= 6);
}

}  // namespace

void prefer_when_woken() {
  if (!groups_keep_lag()) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kHighestPriority);
    return;
  }
  SchedAttr attr;
  attr.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  attr.runtime = kShortestSlice;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace uroce::glue
