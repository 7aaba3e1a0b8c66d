// The queue pair of the general services (IBTA vol. 1, 3.9.4): UD, one per port, with a Q_Key of its own.
#pragma once

#include <cstdint>

namespace uroce::wire {

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;

}  // namespace uroce::wire
