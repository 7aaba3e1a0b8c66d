// Q_Keys of privileged programs (IBTA vol. 1, 10.2.5).
#pragma once

#include <cstdint>

namespace uroce {

/// Only privileged programs may set a Q_Key with this bit. QP1's Q_Key has it.
inline constexpr uint32_t kControlledQkey = 1u << 31;

}  // namespace uroce
