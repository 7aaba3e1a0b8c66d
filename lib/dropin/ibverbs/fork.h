// Fork support (ibv_fork_init(3)).
#pragma once

namespace uroce::dropin {

/// As libibverbs does: RDMAV_FORK_SAFE or IBV_FORK_SAFE in the environment stands for ibv_fork_init().
void fork_init_from_environment();

}  // namespace uroce::dropin
