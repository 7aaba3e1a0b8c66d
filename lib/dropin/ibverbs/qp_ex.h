// Work requests by call (ibv_wr_start(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// The operations that ibv_wr_*() can post on a queue pair of `type`: bits of enum ibv_qp_create_send_ops_flags.
uint64_t served_send_operations(uint32_t type);
/// The calls of struct ibv_qp_ex.
void fill_wr_operations(VerbsQp& qp);

}  // namespace uroce::dropin
