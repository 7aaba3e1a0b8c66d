// Ethernet, 802.1Q, IPv4, IPv6 and UDP as far as RoCE v2 needs them: sizes, numbers, and the small checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace uroce::wire {

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kVlanBytes = 4;
inline constexpr std::size_t kIpv4Bytes = 20;  ///< without options
inline constexpr std::size_t kIpv6Bytes = 40;
inline constexpr std::size_t kUdpBytes = 8;

inline constexpr uint16_t kEthertypeIpv4 = 0x0800;
inline constexpr uint16_t kEthertypeArp = 0x0806;
inline constexpr uint16_t kEthertypeVlan = 0x8100;
inline constexpr uint16_t kEthertypeIpv6 = 0x86dd;

inline constexpr uint8_t kProtocolHopByHop = 0;  ///< IPv6 options
inline constexpr uint8_t kProtocolIcmp = 1;
inline constexpr uint8_t kProtocolIgmp = 2;
inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint8_t kProtocolIcmpv6 = 58;

/// The Ethernet header and its tag. `l3_offset` is 0 when the frame is too short.
struct L2 {
  uint16_t l3_offset = 0;
  uint16_t ethertype = 0;  ///< after the tag
  bool tagged = false;
  uint16_t tag = 0;  ///< tag control information: priority 3, DEI 1, id 12 bits
};

/// Accepts at most one 802.1Q tag. A provider tag (802.1ad, 0x88a8) is not removed: the frame keeps that ethertype, and
/// no protocol of this port takes it.
inline L2 parse_l2(std::span<const std::byte> frame) {
  if (frame.size() < kEthernetBytes) return {};
  const uint16_t ethertype = load_be16(frame.data() + 12);
  if (ethertype != kEthertypeVlan) return {kEthernetBytes, ethertype};
  if (frame.size() < kEthernetBytes + kVlanBytes) return {};
  return {kEthernetBytes + kVlanBytes, load_be16(frame.data() + 16), true, load_be16(frame.data() + 14)};
}

/// Ones'-complement sum of an IPv4 header without options, not folded. Byte order does not matter to the sum
/// (RFC 1071, 2.B): this one is of little-endian 32-bit words.
inline uint64_t ipv4_sum(const std::byte* ip) {
  uint64_t sum = load_le32(ip);
  sum += load_le32(ip + 4);
  sum += load_le32(ip + 8);
  sum += load_le32(ip + 12);
  return sum + load_le32(ip + 16);
}

/// Folds a ones'-complement sum to 16 bits.
inline uint16_t fold(uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum + (sum >> 16));
}
inline uint16_t fold(uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  return fold(static_cast<uint32_t>(sum + (sum >> 32)));
}

inline bool ipv4_checksum_ok(const std::byte* ip) { return fold(ipv4_sum(ip)) == 0xffff; }

}  // namespace uroce::wire
