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
  // Where the fields stand.
  static constexpr std::size_t kEthDestination = 0;
  static constexpr std::size_t kEthSource = 6;
  static constexpr std::size_t kEthType = 12;
  static constexpr std::size_t kVlanTag = 14;
  static constexpr std::size_t kIpSource = 16;  ///< of IPv4, ::ffff:a.b.c.d
  static constexpr std::size_t kIpDestination = 32;
  static constexpr std::size_t kIpVersion = 48;
  static constexpr std::size_t kProtocol = 49;
  static constexpr std::size_t kTrafficClass = 50;
  static constexpr std::size_t kHopLimit = 51;
  static constexpr std::size_t kFlowLabel = 52;  ///< or the flags of IPv4
  static constexpr std::size_t kSourcePort = 56;
  static constexpr std::size_t kDestinationPort = 58;
  static constexpr std::size_t kPortsOf = 60;   ///< the protocol that the ports belong to; 0 without ports
  static constexpr uint8_t kMoreFragments = 4;  ///< of the flags of IPv4
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

}  // namespace uroce::wire
