// Sizes of the headers on the wire, bytes (IBTA vol. 1, 9.2 to 9.3).
#pragma once

#include <cstddef>

namespace uroce::wire {

inline constexpr std::size_t kBthBytes = 12;
inline constexpr std::size_t kRethBytes = 16;
inline constexpr std::size_t kAtomicEthBytes = 28;
inline constexpr std::size_t kAethBytes = 4;
inline constexpr std::size_t kAtomicAckEthBytes = 8;
inline constexpr std::size_t kDethBytes = 8;
inline constexpr std::size_t kFethBytes = 4;
inline constexpr std::size_t kXrcethBytes = 4;
inline constexpr std::size_t kImmBytes = 4;
inline constexpr std::size_t kIethBytes = 4;
inline constexpr std::size_t kIcrcBytes = 4;

}  // namespace uroce::wire
