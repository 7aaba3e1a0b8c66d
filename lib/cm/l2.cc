#include "cm/l2.h"

#include <algorithm>

#include "base/bytes.h"

namespace uroce::cm {

namespace {

constexpr std::size_t kIpv4Bytes = 20;
constexpr std::size_t kIpv6Bytes = 40;
constexpr std::size_t kIcmpMinBytes = 8;
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolIcmpv6 = 58;

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

std::optional<IcmpView> parse_icmpv4(std::span<const std::byte> packet, bool& malformed) {
  malformed = true;
  if (packet.size() < kIpv4Bytes || load8(&packet[0]) >> 4 != 4) return std::nullopt;
  const std::size_t header = std::size_t{load8(&packet[0]) & 0xfu} * 4;
  const std::size_t total = load_be16(&packet[2]);
  if (header < kIpv4Bytes || total < header || total > packet.size()) return std::nullopt;
  InetChecksum ip;
  ip.add(packet.first(header));
  if (ip.value() != 0) return std::nullopt;
  if ((load_be16(&packet[6]) & 0x3fff) != 0 || load8(&packet[9]) != kProtocolIcmp) {
    malformed = false;  // a fragment, or another protocol
    return std::nullopt;
  }
  IcmpView view;
  view.message = packet.subspan(header, total - header);
  InetChecksum icmp;
  icmp.add(view.message);
  if (view.message.size() < kIcmpMinBytes || icmp.value() != 0) return std::nullopt;
  malformed = false;
  view.hop_limit = load8(&packet[8]);
  view.source = Gid::from_ipv4(load_be32(&packet[12]));
  view.destination = Gid::from_ipv4(load_be32(&packet[16]));
  return view;
}

std::optional<IcmpView> parse_icmpv6(std::span<const std::byte> packet, bool& malformed) {
  malformed = true;
  if (packet.size() < kIpv6Bytes || load8(&packet[0]) >> 4 != 6) return std::nullopt;
  const std::size_t length = load_be16(&packet[4]);
  if (length > packet.size() - kIpv6Bytes) return std::nullopt;
  if (load8(&packet[6]) != kProtocolIcmpv6) {
    malformed = false;  // another protocol, or extension headers, which neither ND nor echo needs
    return std::nullopt;
  }
  IcmpView view;
  view.message = packet.subspan(kIpv6Bytes, length);
  view.hop_limit = load8(&packet[7]);
  view.source = load_ipv6(&packet[8]);
  view.destination = load_ipv6(&packet[24]);
  InetChecksum sum;
  sum.add_ipv6_pseudo(view.source, view.destination, static_cast<uint32_t>(length), kProtocolIcmpv6);
  sum.add(view.message);
  if (length < kIcmpMinBytes || sum.value() != 0) return std::nullopt;
  malformed = false;
  return view;
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

std::vector<std::byte> make_icmpv4(const Gid& source, const Gid& destination, std::vector<std::byte> message) {
  store_be16(&message[2], 0);
  InetChecksum icmp;
  icmp.add(message);
  store_be16(&message[2], icmp.value());
  std::vector<std::byte> packet(kIpv4Bytes + message.size());
  store8(&packet[0], 0x45);
  store_be16(&packet[2], static_cast<uint16_t>(packet.size()));
  store8(&packet[8], 64);
  store8(&packet[9], kProtocolIcmp);
  store_be32(&packet[12], source.ipv4());
  store_be32(&packet[16], destination.ipv4());
  InetChecksum ip;
  ip.add(std::span(packet).first(kIpv4Bytes));
  store_be16(&packet[10], ip.value());
  std::ranges::copy(message, packet.begin() + kIpv4Bytes);
  return packet;
}

std::vector<std::byte> make_icmpv6(const Gid& source, const Gid& destination, uint8_t hop_limit,
                                   std::vector<std::byte> message) {
  store_be16(&message[2], 0);
  InetChecksum sum;
  sum.add_ipv6_pseudo(source, destination, static_cast<uint32_t>(message.size()), kProtocolIcmpv6);
  sum.add(message);
  store_be16(&message[2], sum.value());
  std::vector<std::byte> packet(kIpv6Bytes + message.size());
  store8(&packet[0], 0x60);
  store_be16(&packet[4], static_cast<uint16_t>(message.size()));
  store8(&packet[6], kProtocolIcmpv6);
  store8(&packet[7], hop_limit);
  std::memcpy(&packet[8], source.bytes.data(), 16);
  std::memcpy(&packet[24], destination.bytes.data(), 16);
  std::ranges::copy(message, packet.begin() + kIpv6Bytes);
  return packet;
}

}  // namespace uroce::cm
