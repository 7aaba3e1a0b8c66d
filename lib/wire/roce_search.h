// Looking for RoCE in frames that programs send.
#pragma once

#include <cstddef>
#include <span>

namespace uroce::wire {

/// The bytes at the beginning of a frame that are enough to look for RoCE in it.
inline constexpr std::size_t kRoceSearchBytes = 128;
/// Could a receiver take this frame for RoCE (UDP port 4791, behind any VLAN tags and IPv6 extension headers)? `head`
/// is the frame's beginning, `whole` tells that it is the whole frame. True where the headers go on behind `head`.
bool may_carry_roce(std::span<const std::byte> head, bool whole);

}  // namespace uroce::wire
