// Texts for enumerators that rdma-core's providers ask for.
#pragma once

#include <infiniband/verbs.h>

namespace uroce::dropin {

const char* text_of(ibv_wr_opcode opcode);

}  // namespace uroce::dropin
