#include "wire/flow_key.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kDontFragment = 2;
constexpr uint32_t kFlowLabelMask = 0xfffff;

void load_ports(FlowKey& key, std::span<const std::byte> l4, uint8_t protocol) {
  if ((protocol != kProtocolTcp && protocol != kProtocolUdp) || l4.size() < 4) return;
  std::memcpy(&key.bytes[FlowKey::kSourcePort], l4.data(), 4);
  store8(&key.bytes[FlowKey::kPortsOf], protocol);
}

void load_ipv4(FlowKey& key, std::span<const std::byte> l3) {
  if (l3.size() < kIpv4Bytes || load8(&l3[0]) >> 4 != 4) return;
  const std::size_t header = std::size_t{load8(&l3[0]) & 0xfu} * 4;
  if (header < kIpv4Bytes || header > l3.size()) return;
  const auto mapped = [&key, &l3](std::size_t at, std::size_t from) {
    store_be16(&key.bytes[at + 10], 0xffff);
    std::memcpy(&key.bytes[at + 12], &l3[from], 4);
  };
  mapped(FlowKey::kIpSource, 12);
  mapped(FlowKey::kIpDestination, 16);
  const uint16_t fragment = load_be16(&l3[6]);
  store8(&key.bytes[FlowKey::kIpVersion], 4);
  key.bytes[FlowKey::kProtocol] = l3[9];
  key.bytes[FlowKey::kTrafficClass] = l3[1];
  key.bytes[FlowKey::kHopLimit] = l3[8];
  const int flags =
      ((fragment & 0x4000) != 0 ? kDontFragment : 0) | ((fragment & 0x2000) != 0 ? FlowKey::kMoreFragments : 0);
  store_be32(&key.bytes[FlowKey::kFlowLabel], static_cast<uint32_t>(flags));
  if ((fragment & 0x1fff) == 0) load_ports(key, l3.subspan(header), load8(&l3[9]));
}

void load_ipv6(FlowKey& key, std::span<const std::byte> l3) {
  if (l3.size() < kIpv6Bytes || load8(&l3[0]) >> 4 != 6) return;
  std::memcpy(&key.bytes[FlowKey::kIpSource], &l3[8], 16);
  std::memcpy(&key.bytes[FlowKey::kIpDestination], &l3[24], 16);
  store8(&key.bytes[FlowKey::kIpVersion], 6);
  key.bytes[FlowKey::kProtocol] = l3[6];
  store8(&key.bytes[FlowKey::kTrafficClass], static_cast<uint8_t>(load_be16(&l3[0]) >> 4));
  key.bytes[FlowKey::kHopLimit] = l3[7];
  store_be32(&key.bytes[FlowKey::kFlowLabel], load_be32(&l3[0]) & kFlowLabelMask);
  load_ports(key, l3.subspan(kIpv6Bytes), load8(&l3[6]));
}

FlowKey key_of(const FlowFields& fields) {
  FlowKey key;
  std::memcpy(&key.bytes[FlowKey::kEthDestination], fields.eth_destination.bytes.data(), 6);
  std::memcpy(&key.bytes[FlowKey::kEthSource], fields.eth_source.bytes.data(), 6);
  store_be16(&key.bytes[FlowKey::kEthType], fields.eth_type);
  store_be16(&key.bytes[FlowKey::kVlanTag], fields.vlan_tag);
  std::memcpy(&key.bytes[FlowKey::kIpSource], fields.ip_source.bytes.data(), 16);
  std::memcpy(&key.bytes[FlowKey::kIpDestination], fields.ip_destination.bytes.data(), 16);
  store8(&key.bytes[FlowKey::kProtocol], fields.ip_protocol);
  store8(&key.bytes[FlowKey::kTrafficClass], fields.traffic_class);
  store8(&key.bytes[FlowKey::kHopLimit], fields.hop_limit);
  store_be32(&key.bytes[FlowKey::kFlowLabel], fields.flow_label & kFlowLabelMask);
  store_be16(&key.bytes[FlowKey::kSourcePort], fields.source_port);
  store_be16(&key.bytes[FlowKey::kDestinationPort], fields.destination_port);
  return key;
}

bool any_bit(const FlowKey& key, std::size_t from, std::size_t to) {
  for (std::size_t at = from; at < to; ++at) {
    if (key.bytes[at] != std::byte{0}) return true;
  }
  return false;
}

/// Marks a byte that the frame must have.
void require(FlowPattern& pattern, std::size_t at, uint8_t value) {
  store8(&pattern.mask.bytes[at], 0xff);
  store8(&pattern.value.bytes[at], value);
}

void take_ip_version(FlowPattern& pattern, const FlowRule& rule) {
  if (rule.layers.has(FlowLayer::ipv6)) return require(pattern, FlowKey::kIpVersion, 6);
  if (!rule.layers.has(FlowLayer::ipv4)) return;
  require(pattern, FlowKey::kIpVersion, 4);
  for (const std::size_t at : {FlowKey::kIpSource, FlowKey::kIpDestination}) {
    std::memset(&pattern.mask.bytes[at], 0, 12);
  }
  store_be32(&pattern.mask.bytes[FlowKey::kFlowLabel], rule.mask.ipv4_flags);
  store_be32(&pattern.value.bytes[FlowKey::kFlowLabel], rule.value.ipv4_flags);
}

std::unexpected<Error> refuse(const std::string& why) { return fail(EINVAL, "cannot create receive rule: " + why); }

Result<void> check_layers(FlowLayers layers) {
  const FlowLayers known = FlowLayer::ipv4 | FlowLayer::ipv6 | FlowLayers(FlowLayer::tcp) | FlowLayer::udp;
  if (!layers.without(known).empty()) {
    return refuse(fmt::format("FlowRule::layers has unknown bits {:#x}; the known bits are {:#x}",
                              layers.without(known).bits(), known.bits()));
  }
  if (layers.has_all(FlowLayer::ipv4 | FlowLayer::ipv6)) {
    return refuse("FlowRule::layers has IPv4 and IPv6, and no frame has both; make two rules");
  }
  if (layers.has_all(FlowLayer::tcp | FlowLayer::udp)) {
    return refuse("FlowRule::layers has TCP and UDP, and no frame has both; make two rules");
  }
  return {};
}

}  // namespace

FlowKey flow_key(std::span<const std::byte> frame) {
  FlowKey key;
  if (frame.size() < kEthernetBytes) return key;
  std::memcpy(key.bytes.data(), frame.data(), kEthernetBytes);
  const L2 l2 = parse_l2(frame);
  if (l2.l3_offset == 0) return key;
  store_be16(&key.bytes[FlowKey::kEthType], l2.ethertype);
  if (l2.tagged) std::memcpy(&key.bytes[FlowKey::kVlanTag], &frame[kEthernetBytes], 2);
  const auto l3 = frame.subspan(l2.l3_offset);
  if (l2.ethertype == kEthertypeIpv4) load_ipv4(key, l3);
  if (l2.ethertype == kEthertypeIpv6) load_ipv6(key, l3);
  return key;
}

bool FlowPattern::matches(const FlowKey& key) const {
  for (std::size_t at = 0; at < FlowKey::kBytes; at += sizeof(uint64_t)) {
    uint64_t found, bits, wanted;
    std::memcpy(&found, &key.bytes[at], sizeof found);
    std::memcpy(&bits, &mask.bytes[at], sizeof bits);
    std::memcpy(&wanted, &value.bytes[at], sizeof wanted);
    if ((found & bits) != wanted) return false;
  }
  return true;
}

Result<FlowPattern> make_pattern(const FlowRule& rule) {
  if (rule.type > FlowType::sniffer) {
    return refuse(fmt::format("unknown FlowRule::type {}; it must be 0 to 3", static_cast<int>(rule.type)));
  }
  if (auto ok = check_layers(rule.layers); !ok) return std::unexpected(ok.error());
  FlowPattern pattern{key_of(rule.mask), key_of(rule.value)};
  if (rule.type != FlowType::normal) {
    if (!rule.layers.empty() || any_bit(pattern.mask, 0, FlowKey::kBytes) || rule.mask.ipv4_flags != 0) {
      return refuse("only a rule of type \"normal\" compares fields; leave FlowRule::layers and mask empty");
    }
    pattern = {};
    if (rule.type != FlowType::mc_default) return pattern;
    store8(&pattern.mask.bytes[FlowKey::kEthDestination], 1);
    store8(&pattern.value.bytes[FlowKey::kEthDestination], 1);
    return pattern;
  }
  const bool ip = rule.layers.has_any(FlowLayer::ipv4 | FlowLayer::ipv6);
  const bool ip_fields = any_bit(pattern.mask, FlowKey::kIpSource, FlowKey::kSourcePort) || rule.mask.ipv4_flags != 0;
  if (ip_fields && !ip) {
    return refuse("FlowRule::mask has IP fields; add FlowLayer::ipv4 or ipv6 to FlowRule::layers");
  }
  if (rule.mask.ipv4_flags != 0 && !rule.layers.has(FlowLayer::ipv4)) {
    return refuse("FlowRule::mask has ipv4_flags, which IPv6 does not have; set them to 0");
  }
  if ((rule.mask.flow_label & kFlowLabelMask) != 0 && !rule.layers.has(FlowLayer::ipv6)) {
    return refuse("FlowRule::mask has a flow_label, which IPv4 does not have; set it to 0");
  }
  const bool ports = rule.layers.has_any(FlowLayer::tcp | FlowLayer::udp);
  if (any_bit(pattern.mask, FlowKey::kSourcePort, FlowKey::kPortsOf) && !ports) {
    return refuse("FlowRule::mask has ports; add FlowLayer::tcp or udp to FlowRule::layers");
  }
  take_ip_version(pattern, rule);
  if (ports) require(pattern, FlowKey::kPortsOf, rule.layers.has(FlowLayer::tcp) ? kProtocolTcp : kProtocolUdp);
  for (std::size_t at = 0; at < FlowKey::kBytes; ++at) pattern.value.bytes[at] &= pattern.mask.bytes[at];
  return pattern;
}

}  // namespace uroce::wire
