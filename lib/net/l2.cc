#include "net/l2.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"

namespace uroce::net {

namespace {

constexpr std::size_t kIpv4Bytes = 20;
constexpr std::size_t kIpv6Bytes = 40;
constexpr std::size_t kIcmpMinBytes = 8;
using wire::kProtocolHopByHop;
using wire::kProtocolIcmp;
constexpr uint8_t kRouterAlertIpv4 = 148;
constexpr uint8_t kRouterAlertIpv6 = 5;

Gid load_ipv6(const std::byte* p) {
  Gid gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}

}  // namespace

void InetChecksum::add(std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (; at + 1 < bytes.size(); at += 2) sum_ += load_be16(&bytes[at]);
  if (at < bytes.size()) sum_ += uint64_t{load8(&bytes[at])} << 8;
}

void InetChecksum::add_ipv6_pseudo(const Gid& source, const Gid& destination, uint32_t length, uint8_t next_header) {
  add(std::as_bytes(std::span(source.bytes)));
  add(std::as_bytes(std::span(destination.bytes)));
  sum_ += length;
  sum_ += next_header;
}

uint16_t InetChecksum::value() const {
  uint64_t sum = sum_;
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

std::optional<EtherView> parse_ether(std::span<const std::byte> frame) {
  if (frame.size() < 14) return std::nullopt;
  EtherView view;
  std::memcpy(view.destination.bytes.data(), &frame[0], 6);
  std::memcpy(view.source.bytes.data(), &frame[6], 6);
  view.type = load_be16(&frame[12]);
  std::size_t header = 14;
  if (view.type == kEtherVlan) {
    if (frame.size() < 18) return std::nullopt;
    view.vlan = load_be16(&frame[14]) & 0xfff;
    view.type = load_be16(&frame[16]);
    header = 18;
  }
  view.payload = frame.subspan(header);
  return view;
}

std::optional<IpView> parse_ipv4(std::span<const std::byte> packet, bool& malformed) {
  malformed = true;
  if (packet.size() < kIpv4Bytes || load8(&packet[0]) >> 4 != 4) return std::nullopt;
  const std::size_t header = std::size_t{load8(&packet[0]) & 0xfu} * 4;
  const std::size_t total = load_be16(&packet[2]);
  if (header < kIpv4Bytes || total < header || total > packet.size()) return std::nullopt;
  InetChecksum ip;
  ip.add(packet.first(header));
  if (ip.value() != 0) return std::nullopt;
  malformed = false;
  if ((load_be16(&packet[6]) & 0x3fff) != 0) return std::nullopt;  // a fragment
  IpView view;
  view.source = Gid::from_ipv4(load_be32(&packet[12]));
  view.destination = Gid::from_ipv4(load_be32(&packet[16]));
  view.hop_limit = load8(&packet[8]);
  view.protocol = load8(&packet[9]);
  // Router alert is the first option: hosts that send it put no other option before it.
  view.router_alert = header >= kIpv4Bytes + 4 && load8(&packet[kIpv4Bytes]) == kRouterAlertIpv4;
  view.payload = packet.subspan(header, total - header);
  return view;
}

std::optional<IpView> parse_ipv6(std::span<const std::byte> packet, bool& malformed) {
  malformed = true;
  if (packet.size() < kIpv6Bytes || load8(&packet[0]) >> 4 != 6) return std::nullopt;
  const std::size_t length = load_be16(&packet[4]);
  if (length > packet.size() - kIpv6Bytes) return std::nullopt;
  IpView view;
  view.source = load_ipv6(&packet[8]);
  view.destination = load_ipv6(&packet[24]);
  // RFC 4291, 2.7; a mapped address would mix IPv4's neighbours and groups with those of IPv6.
  if (view.source.is_multicast() || view.source.is_ipv4() || view.destination.is_ipv4()) return std::nullopt;
  view.hop_limit = load8(&packet[7]);
  view.protocol = load8(&packet[6]);
  view.payload = packet.subspan(kIpv6Bytes, length);
  if (view.protocol == kProtocolHopByHop) {
    if (length < 8) return std::nullopt;
    const std::size_t options_end = (std::size_t{load8(&view.payload[1])} + 1) * 8;
    if (options_end > length) return std::nullopt;
    for (std::size_t at = 2; at < options_end;) {
      const uint8_t type = load8(&view.payload[at]);
      if (type == 0) {  // Pad1
        ++at;
        continue;
      }
      if (at + 2 > options_end || at + 2 + load8(&view.payload[at + 1]) > options_end) return std::nullopt;
      view.router_alert = view.router_alert || type == kRouterAlertIpv6;
      at += 2 + std::size_t{load8(&view.payload[at + 1])};
    }
    view.hop_by_hop = true;
    view.protocol = load8(&view.payload[0]);
    view.payload = view.payload.subspan(options_end);
  }
  malformed = false;
  return view;
}

std::optional<IcmpView> parse_icmpv4(std::span<const std::byte> packet, bool& malformed) {
  const auto ip = parse_ipv4(packet, malformed);
  if (!ip || ip->protocol != kProtocolIcmp) return std::nullopt;
  malformed = true;
  InetChecksum icmp;
  icmp.add(ip->payload);
  if (ip->payload.size() < kIcmpMinBytes || icmp.value() != 0) return std::nullopt;
  malformed = false;
  return IcmpView{ip->source, ip->destination, ip->hop_limit, ip->payload};
}

std::optional<IcmpView> parse_icmpv6(std::span<const std::byte> packet, bool& malformed) {
  const auto ip = parse_ipv6(packet, malformed);
  // Neighbour discovery and echo need no extension headers.
  if (!ip || ip->protocol != kProtocolIcmpv6 || ip->hop_by_hop) return std::nullopt;
  malformed = true;
  InetChecksum sum;
  sum.add_ipv6_pseudo(ip->source, ip->destination, static_cast<uint32_t>(ip->payload.size()), kProtocolIcmpv6);
  sum.add(ip->payload);
  if (ip->payload.size() < kIcmpMinBytes || sum.value() != 0) return std::nullopt;
  malformed = false;
  return IcmpView{ip->source, ip->destination, ip->hop_limit, ip->payload};
}

std::vector<std::byte> make_ether(const EthAddr& destination, const EthAddr& source, uint16_t vlan, uint16_t type,
                                  std::span<const std::byte> payload) {
  const std::size_t header = vlan != 0 ? 18 : 14;
  std::vector<std::byte> frame(header + payload.size());
  std::memcpy(&frame[0], destination.bytes.data(), 6);
  std::memcpy(&frame[6], source.bytes.data(), 6);
  if (vlan != 0) {
    store_be16(&frame[12], kEtherVlan);
    store_be16(&frame[14], vlan);
  }
  store_be16(&frame[header - 2], type);
  std::ranges::copy(payload, frame.begin() + static_cast<std::ptrdiff_t>(header));
  return frame;
}

namespace {

/// `header` is a multiple of 4. The caller must have written the options, because the checksum covers them.
void store_ipv4(std::span<std::byte> packet, std::size_t header, const Gid& source, const Gid& destination, uint8_t ttl,
                uint8_t protocol) {
  store8(&packet[0], static_cast<uint8_t>(0x40 | header / 4));
  store_be16(&packet[2], static_cast<uint16_t>(packet.size()));
  store8(&packet[8], ttl);
  store8(&packet[9], protocol);
  store_be32(&packet[12], source.ipv4());
  store_be32(&packet[16], destination.ipv4());
  InetChecksum ip;
  ip.add(packet.first(header));
  store_be16(&packet[10], ip.value());
}

void store_ipv6(std::span<std::byte> packet, const Gid& source, const Gid& destination, uint8_t hop_limit,
                uint8_t next_header) {
  store8(&packet[0], 0x60);
  store_be16(&packet[4], static_cast<uint16_t>(packet.size() - kIpv6Bytes));
  store8(&packet[6], next_header);
  store8(&packet[7], hop_limit);
  std::memcpy(&packet[8], source.bytes.data(), 16);
  std::memcpy(&packet[24], destination.bytes.data(), 16);
}

void fill_checksum(std::vector<std::byte>& message) {
  store_be16(&message[2], 0);
  InetChecksum sum;
  sum.add(message);
  store_be16(&message[2], sum.value());
}

void fill_checksum_ipv6(std::vector<std::byte>& message, const Gid& source, const Gid& destination) {
  store_be16(&message[2], 0);
  InetChecksum sum;
  sum.add_ipv6_pseudo(source, destination, static_cast<uint32_t>(message.size()), kProtocolIcmpv6);
  sum.add(message);
  store_be16(&message[2], sum.value());
}

}  // namespace

std::vector<std::byte> make_icmpv4(const Gid& source, const Gid& destination, std::vector<std::byte> message,
                                   Fragments fragments) {
  constexpr uint16_t kDontFragment = 0x4000;
  fill_checksum(message);
  std::vector<std::byte> packet(kIpv4Bytes);
  packet.insert(packet.end(), message.begin(), message.end());
  if (fragments == Fragments::forbidden) store_be16(&packet[6], kDontFragment);
  store_ipv4(packet, kIpv4Bytes, source, destination, 64, kProtocolIcmp);
  return packet;
}

std::vector<std::byte> make_icmpv6(const Gid& source, const Gid& destination, uint8_t hop_limit,
                                   std::vector<std::byte> message) {
  fill_checksum_ipv6(message, source, destination);
  std::vector<std::byte> packet(kIpv6Bytes);
  packet.insert(packet.end(), message.begin(), message.end());
  store_ipv6(packet, source, destination, hop_limit, kProtocolIcmpv6);
  return packet;
}

std::vector<std::byte> make_igmp(const Gid& source, const Gid& destination, std::vector<std::byte> message) {
  constexpr std::size_t kHeader = kIpv4Bytes + 4;
  constexpr uint8_t kInternetworkControl = 0xc0;
  fill_checksum(message);
  std::vector<std::byte> packet(kHeader);
  packet.insert(packet.end(), message.begin(), message.end());
  store8(&packet[1], kInternetworkControl);
  store8(&packet[kIpv4Bytes], kRouterAlertIpv4);
  store8(&packet[kIpv4Bytes + 1], 4);
  store_ipv4(packet, kHeader, source, destination, 1, kProtocolIgmp);
  return packet;
}

std::vector<std::byte> make_mld(const Gid& source, const Gid& destination, std::vector<std::byte> message) {
  // Next header, length 8 bytes; router alert: length 2, value 0 for MLD; PadN: length 0.
  constexpr std::array<uint8_t, 8> kOptions{kProtocolIcmpv6, 0, kRouterAlertIpv6, 2, 0, 0, 1, 0};
  fill_checksum_ipv6(message, source, destination);
  std::vector<std::byte> packet(kIpv6Bytes + kOptions.size());
  std::memcpy(&packet[kIpv6Bytes], kOptions.data(), kOptions.size());
  packet.insert(packet.end(), message.begin(), message.end());
  store_ipv6(packet, source, destination, 1, kProtocolHopByHop);
  return packet;
}

}  // namespace uroce::net
