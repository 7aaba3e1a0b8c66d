// Flags of a datagram's completion beyond ibv_wc::wc_flags.
#pragma once

#include <uroce/types.h>

namespace uroce {

/// In Completion::flags: the datagram came by IPv4, and the last 20 of its first 40 bytes hold the header (IBTA annex
/// A17.4.5.1).
inline constexpr WcFlag kFromIpv4{1u << 30};

}  // namespace uroce
