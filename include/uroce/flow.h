// Receive rules of raw packet queue pairs: which frames of the port a queue pair gets (ibv_create_flow(3)).
//
// Plain values. Any thread may copy them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <uroce/flags.h>
#include <uroce/types.h>

namespace uroce {

/// Kinds of receive rules; values of enum ibv_flow_attr_type.
enum class FlowType : uint8_t {
  normal = 0,       ///< the frames that match the rule's fields
  all_default = 1,  ///< the frames that no other rule takes
  mc_default = 2,   ///< of those, the frames to Ethernet groups
  sniffer = 3,      ///< a copy of every frame that the port receives or this device sends, RoCE included
};

/// Headers that a frame must have to match a rule.
enum class FlowLayer : uint32_t {
  ipv4 = 1u << 0,
  ipv6 = 1u << 1,
  tcp = 1u << 2,
  udp = 1u << 3,
};
using FlowLayers = Flags<FlowLayer>;

/// Header fields of a frame that rules compare, in host byte order.
struct FlowFields {
  EthAddr eth_destination{};
  EthAddr eth_source{};
  uint16_t eth_type = 0;      ///< behind the 802.1Q tag, where there is one
  uint16_t vlan_tag = 0;      ///< priority 3 bits, DEI 1 bit, VLAN id 12 bits; 0 without a tag
  Gid ip_source{};            ///< IPv4 as ::ffff:a.b.c.d; of an IPv4 mask the last 4 bytes count
  Gid ip_destination{};       ///< likewise
  uint8_t ip_protocol = 0;    ///< IPv6: the first next header
  uint8_t traffic_class = 0;  ///< the TOS byte of IPv4
  uint8_t hop_limit = 0;      ///< the TTL of IPv4
  uint8_t ipv4_flags = 0;     ///< 2: do not fragment, 4: more fragments
  uint32_t flow_label = 0;    ///< IPv6, 20 bits
  uint16_t source_port = 0;   ///< TCP, UDP
  uint16_t destination_port = 0;
};

/// A receive rule. A frame matches when it has the headers in `layers` and agrees with `value` in all bits of `mask`.
/// Rules see the frames that are neither RoCE nor ARP, ICMP, ICMPv6 or IGMP, which the stack itself needs; only
/// sniffers see those. Of several rules that match, the one with the lowest `priority` takes the frame, and of these
/// the oldest.
struct FlowRule {
  FlowType type = FlowType::normal;
  uint16_t priority = 0;  ///< of rules of one type; 0 comes first
  FlowLayers layers{};    ///< one of IPv4 and IPv6 at most, one of TCP and UDP at most
  FlowFields value{};     ///< only of type `normal`, as is `mask`
  FlowFields mask{};      ///< IP fields need an IP layer, and ports need TCP or UDP
  uint32_t tag = 0;       ///< any value; Completion::flow_tag of the frames that the rule gives
};

/// The frames that a rule has given to queue pairs since it was made, whether or not they had room. A sniffer counts
/// its copies.
struct FlowCounters {
  uint64_t packets = 0;
  uint64_t bytes = 0;  ///< of whole frames, without the FCS
};

/// Header fields that receive-side scaling hashes; values of enum ibv_rx_hash_fields.
enum class RxHashField : uint32_t {
  ipv4_source = 1u << 0,
  ipv4_destination = 1u << 1,
  ipv6_source = 1u << 2,
  ipv6_destination = 1u << 3,
  tcp_source_port = 1u << 4,
  tcp_destination_port = 1u << 5,
  udp_source_port = 1u << 6,
  udp_destination_port = 1u << 7,
};
using RxHashFields = Flags<RxHashField>;
inline constexpr uint32_t kRxHashFields = 0xff;  ///< the bits of all of them

/// How receive-side scaling picks one of several queue pairs for a frame (struct ibv_rx_hash_conf): by the Toeplitz
/// hash of those of the chosen fields that the frame has. They follow each other without gaps in the order source
/// address, destination address, source port, destination port, each as it is in the frame. No fragment has ports, not
/// even the first, so that all fragments of a datagram stay together. The hash of a frame without any of the fields is
/// 0.
struct RxHash {
  static constexpr std::size_t kKeyBytes = 40;
  RxHashFields fields{};
  std::array<uint8_t, kKeyBytes> key{};  ///< with key bits of 0 alone each hash is 0
};

/// Most entries of the table from which a hash picks a queue pair.
inline constexpr std::size_t kMaxIndirection = 256;

}  // namespace uroce
