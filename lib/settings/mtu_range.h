// The range of a port's Ethernet MTU.
#pragma once

#include <cstdint>

namespace uroce::settings {

inline constexpr uint32_t kLeastMtu = 340;  ///< bytes: path MTU 256 behind the longest headers
inline constexpr uint32_t kLargestMtu = 9216;

}  // namespace uroce::settings
