#include <cassert>
#include <cstring>

#include "wire/ethernet.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

void store_ipv4(std::byte* ip, const Route& route) {
  store8(ip, 0x45);
  store8(ip + 1, route.traffic_class);
  store_be16(ip + 6, 0x4000);  // DF: RoCE v2 frames are never fragmented (annex A17.3.1)
  store8(ip + 8, route.hop_limit);
  store8(ip + 9, kProtocolUdp);
  store_be32(ip + 12, route.sgid.ipv4());
  store_be32(ip + 16, route.dgid.ipv4());
}

void store_ipv6(std::byte* ip, const Route& route) {
  store_be32(ip, uint32_t{6} << 28 | uint32_t{route.traffic_class} << 20 | (route.flow_label & 0xfffff));
  store8(ip + 6, kProtocolUdp);
  store8(ip + 7, route.hop_limit);
  std::memcpy(ip + 8, route.sgid.bytes.data(), 16);
  std::memcpy(ip + 24, route.dgid.bytes.data(), 16);
}

Gid ipv6_at(const std::byte* at) {
  Gid gid;
  std::memcpy(gid.bytes.data(), at, gid.bytes.size());
  return gid;
}

}  // namespace

EthAddr multicast_mac(const Gid& group) {
  const auto& g = group.bytes;
  if (group.is_ipv4()) return {{0x01, 0x00, 0x5e, static_cast<uint8_t>(g[13] & 0x7f), g[14], g[15]}};
  return {{0x33, 0x33, g[12], g[13], g[14], g[15]}};
}

RouteTemplate make_template(const Route& route) {
  assert(route.sgid.is_ipv4() == route.dgid.is_ipv4());
  RouteTemplate t;
  std::byte* p = t.bytes.data();
  const bool ipv4 = route.dgid.is_ipv4();
  const uint16_t ethertype = ipv4 ? kEthertypeIpv4 : kEthertypeIpv6;
  std::memcpy(p, route.dst_mac.bytes.data(), 6);
  std::memcpy(p + 6, route.src_mac.bytes.data(), 6);
  t.l3_offset = kEthernetBytes;
  if (route.vlan) {
    store_be16(p + 12, kEthertypeVlan);
    store_be16(p + 14, *route.vlan);
    t.l3_offset += kVlanBytes;
  }
  store_be16(p + t.l3_offset - 2, ethertype);
  std::byte* ip = p + t.l3_offset;
  t.ip_version = ipv4 ? 4 : 6;
  t.length = static_cast<uint8_t>(t.l3_offset + (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes);
  if (ipv4) {
    store_ipv4(ip, route);
    t.ipv4_partial_sum = fold(ipv4_sum(ip));
  } else {
    store_ipv6(ip, route);
  }
  store_be16(p + t.length - kUdpBytes + 2, kUdpPort);
  return t;
}

Gid destination_of(const RouteTemplate& t) {
  const std::byte* ip = t.bytes.data() + t.l3_offset;
  return t.ip_version == 4 ? Gid::from_ipv4(load_be32(ip + 16)) : ipv6_at(ip + 24);
}

Gid source_of(const RouteTemplate& t) {
  const std::byte* ip = t.bytes.data() + t.l3_offset;
  return t.ip_version == 4 ? Gid::from_ipv4(load_be32(ip + 12)) : ipv6_at(ip + 8);
}

std::optional<Route> route_of(const RouteTemplate& t) {
  const std::byte* p = t.bytes.data();
  const L2 l2 = parse_l2(t.bytes);
  const bool ipv4 = l2.ethertype == kEthertypeIpv4;
  if (!ipv4 && l2.ethertype != kEthertypeIpv6) return std::nullopt;
  Route route;
  std::memcpy(route.dst_mac.bytes.data(), p, 6);
  std::memcpy(route.src_mac.bytes.data(), p + 6, 6);
  if (l2.tagged) route.vlan = l2.tag;
  const std::byte* ip = p + l2.l3_offset;
  if (ipv4) {
    route.traffic_class = load8(ip + 1);
    route.hop_limit = load8(ip + 8);
    route.sgid = Gid::from_ipv4(load_be32(ip + 12));
    route.dgid = Gid::from_ipv4(load_be32(ip + 16));
  } else {
    route.traffic_class = static_cast<uint8_t>(load_be32(ip) >> 20 & 0xff);
    route.flow_label = load_be32(ip) & 0xfffff;
    route.hop_limit = load8(ip + 7);
    route.sgid = ipv6_at(ip + 8);
    route.dgid = ipv6_at(ip + 24);
    // IPv4 addresses make an IPv4 header.
    if (route.sgid.is_ipv4() || route.dgid.is_ipv4()) return std::nullopt;
  }
  return make_template(route) == t ? std::optional(route) : std::nullopt;
}

uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn) {
  flow_label &= 0xfffff;
  if (flow_label == 0) {
    uint64_t p = uint64_t{local_qpn} * remote_qpn;
    p ^= p >> 20;
    p ^= p >> 40;
    flow_label = static_cast<uint32_t>(p & 0xfffff);
  }
  return static_cast<uint16_t>(((flow_label & 0x3fff) ^ (flow_label >> 14)) | kLeastSourcePort);
}

}  // namespace uroce::wire
