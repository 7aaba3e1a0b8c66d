// Limits of one device that are not configured.
#pragma once

#include <chrono>
#include <cstdint>

namespace uroce::control {

inline constexpr uint32_t kMaxQpWr = 32768;     ///< work requests per queue
inline constexpr uint32_t kMaxCq = 32768;       ///< per device
inline constexpr uint32_t kMaxCqe = 1u << 20;   ///< per queue
inline constexpr uint32_t kMaxSrq = 4096;       ///< per device
inline constexpr uint32_t kMaxSrqWr = 32768;    ///< receives per shared queue
inline constexpr uint32_t kManyPds = 65536;     ///< as reported: a protection domain costs a device nothing
inline constexpr uint32_t kMaxSessions = 1024;  ///< doorbell rings that an engine polls

/// Timeout for an engine's reply to a control call.
inline constexpr std::chrono::seconds kEngineTimeout{5};
/// Timeout for resolving a peer's Ethernet address.
inline constexpr std::chrono::seconds kResolveTimeout{3};

}  // namespace uroce::control
