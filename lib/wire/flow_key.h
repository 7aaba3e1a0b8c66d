// The fields of a frame that receive rules compare. They stand at fixed places in 64 bytes, so that matching a rule is
// a mask and a comparison of eight words, whatever the rule asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <uroce/error.h>
#include <uroce/flow.h>

namespace uroce::wire {

struct alignas(8) FlowKey {
  static constexpr std::size_t kBytes = 64;
  std::array<std::byte, kBytes> bytes{};
};

/// The fields of a frame; zero where it has no such header. Reads nothing outside `frame`, and checks no checksum.
/// Ports are those of TCP and UDP that follow the IP header at once, in the first fragment.
FlowKey flow_key(std::span<const std::byte> frame);

/// A rule, ready to be matched.
struct FlowPattern {
  FlowKey mask{};
  FlowKey value{};  ///< no bit outside `mask`
  bool matches(const FlowKey& key) const;
};

/// Errors: EINVAL naming the field (unknown type or layer, layers that exclude each other, a field without its layer,
/// fields in a rule of another type than `normal`).
Result<FlowPattern> make_pattern(const FlowRule& rule);

/// The bytes at the beginning of a frame that are enough to look for RoCE in it.
inline constexpr std::size_t kRoceSearchBytes = 128;
/// Could a receiver take this frame for RoCE (UDP port 4791, behind any VLAN tags and IPv6 extension headers)? `head`
/// is the frame's beginning, `whole` tells that it is the whole frame. True where the headers go on behind `head`.
bool may_carry_roce(std::span<const std::byte> head, bool whole);

}  // namespace uroce::wire
