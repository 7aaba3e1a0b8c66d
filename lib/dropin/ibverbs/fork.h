// Fork support (ibv_fork_init(3)).
#pragma once

namespace uroce::dropin {

/// As libibverbs: RDMAV_FORK_SAFE or IBV_FORK_SAFE in the environment asks for it without a call.
void fork_init_from_environment();

}  // namespace uroce::dropin
