#include "dropin/ibverbs/fork.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "sharing/sharing.h"

namespace uroce::dropin {

namespace {
std::atomic<bool> asked_for{false};
}

void fork_init_from_environment() {
  if (std::getenv("RDMAV_FORK_SAFE") != nullptr || std::getenv("IBV_FORK_SAFE") != nullptr) ibv_fork_init();
}

}  // namespace uroce::dropin

extern "C" {

int ibv_fork_init() {
  if (uroce::dropin::asked_for.exchange(true)) return 0;
  uroce::sharing::Sharing::of_this_process().leave_out_of_children();
  return 0;
}

ibv_fork_status ibv_is_fork_initialized() { return uroce::dropin::asked_for ? IBV_FORK_ENABLED : IBV_FORK_DISABLED; }

// The client leaves shared memory out of children by itself. Programs call these beside a registration.
int ibv_dontfork_range(void* /*base*/, std::size_t /*size*/) { return 0; }
int ibv_dofork_range(void* /*base*/, std::size_t /*size*/) { return 0; }

}  // extern "C"
