// The queue pair types of libibverbs that uroce has (base/wr_opcodes.h).
#pragma once

#include <cstdint>

#include "base/wr_opcodes.h"

namespace uroce::dropin {

/// `type` is the number of an ibv_qp_type.
inline bool is_served(uint32_t type) { return type <= UINT8_MAX && is_known(static_cast<QpType>(type)); }

}  // namespace uroce::dropin
