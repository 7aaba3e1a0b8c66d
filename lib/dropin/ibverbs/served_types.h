// The queue pair types of libibverbs that uroce has (base/wr_opcodes.h).
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "base/wr_opcodes.h"

namespace uroce::dropin {

inline bool is_served(ibv_qp_type type) {
  return static_cast<int>(type) <= UINT8_MAX && is_known(static_cast<QpType>(type));
}

}  // namespace uroce::dropin
