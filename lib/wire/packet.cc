#include "wire/packet.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "wire/ethernet.h"
#include "wire/icrc.h"

namespace uroce::wire {
namespace {

/// The UDP payload: the BTH and all that follows it.
struct Datagram {
  const std::byte* bth = nullptr;
  std::size_t bytes = 0;  ///< BTH to ICRC
};

/// Accepts an IPv4 header without options, not fragmented, with consistent lengths (annex A17.3.1).
Drop parse_ipv4(std::span<const std::byte> l3, Packet& packet, Datagram& out) {
  if (l3.size() < kIpv4Bytes) return Drop::truncated;
  const std::byte* ip = l3.data();
  const uint8_t version_ihl = load8(ip);
  if (version_ihl >> 4 != 4) return Drop::ip_header_invalid;
  if (load8(ip + 9) != kProtocolUdp) return Drop::not_roce;
  if (version_ihl != 0x45) return Drop::ip_header_invalid;  // no sender of RoCE v2 uses options
  if (!ipv4_checksum_ok(ip)) return Drop::ip_header_invalid;
  if ((load_be16(ip + 6) & 0x3fff) != 0) return Drop::ip_fragment;  // MF or an offset
  const std::size_t total = load_be16(ip + 2);
  if (total > l3.size() || total < kIpv4Bytes + kUdpBytes) return Drop::ip_length;
  const std::byte* udp = ip + kIpv4Bytes;
  if (load_be16(udp + 2) != kUdpPort) return Drop::not_roce;
  if (load_be16(udp + 4) != total - kIpv4Bytes) return Drop::ip_length;
  packet.ip_version = 4;
  packet.ecn = load8(ip + 1) & 3;
  packet.hop_limit = load8(ip + 8);
  packet.udp_source = load_be16(udp);
  out = {udp + kUdpBytes, total - kIpv4Bytes - kUdpBytes};
  return Drop::none;
}

bool is_ipv4_mapped(const std::byte* address) { return load_be64(address) == 0 && load_be32(address + 8) == 0xffff; }

/// The same for IPv6. A frame with extension headers is not RoCE: in annex A17.3.1, UDP follows the IPv6 header
/// directly.
Drop parse_ipv6(std::span<const std::byte> l3, Packet& packet, Datagram& out) {
  if (l3.size() < kIpv6Bytes) return Drop::truncated;
  const std::byte* ip = l3.data();
  const uint32_t first_word = load_be32(ip);
  if (first_word >> 28 != 6) return Drop::ip_header_invalid;
  if (load8(ip + 6) != kProtocolUdp) return Drop::not_roce;
  const std::size_t length = load_be16(ip + 4);
  if (length > l3.size() - kIpv6Bytes || length < kUdpBytes) return Drop::ip_length;
  const std::byte* udp = ip + kIpv6Bytes;
  if (load_be16(udp + 2) != kUdpPort) return Drop::not_roce;
  if (load_be16(udp + 4) != length) return Drop::ip_length;
  // A GID of this form is an IPv4 address. An IPv6 packet with one would pass for a packet of an IPv4 peer (RFC 4942,
  // 2.2).
  if (is_ipv4_mapped(ip + 8) || is_ipv4_mapped(ip + 24)) return Drop::ip_header_invalid;
  packet.ip_version = 6;
  packet.ecn = (first_word >> 20) & 3;
  packet.hop_limit = load8(ip + 7);
  packet.udp_source = load_be16(udp);
  out = {udp + kUdpBytes, length - kUdpBytes};
  return Drop::none;
}

/// The order of the tests is the order of the headers (IBTA vol. 1, table 38). The caller has checked the bounds.
inline void load_extended_headers(const std::byte* p, OpFlags flags, Packet& packet) {
  if (flags.has_any(Op::deth | Op::xrceth)) {
    // No operation has both.
    if (flags.has(Op::deth)) {
      packet.deth = Deth::load(p);
      p += Deth::kBytes;
    } else {
      packet.xrceth = Xrceth::load(p);
      p += Xrceth::kBytes;
    }
  }
  if (flags.has(Op::feth)) {
    packet.feth = Feth::load(p);
    p += Feth::kBytes;
  }
  if (flags.has(Op::reth)) {
    packet.reth = Reth::load(p);
    p += Reth::kBytes;
  }
  if (flags.has(Op::atomic_eth)) packet.atomic = AtomicEth::load(p);
  if (flags.has(Op::aeth)) {
    packet.aeth = Aeth::load(p);
    p += Aeth::kBytes;
  }
  if (flags.has(Op::atomic_ack_eth)) packet.atomic_ack = load_be64(p);
  if (flags.has_any(Op::imm | Op::ieth)) packet.imm = load_be32(p);
}

Drop parse_transport(const Datagram& datagram, Packet& packet) {
  if (datagram.bytes < Bth::kBytes + kIcrcBytes) return Drop::truncated;
  packet.bth.read(datagram.bth);
  if (packet.bth.version != 0) return Drop::bth_version;
  const OpcodeInfo& op = packet.op();
  if (op.name == nullptr) return Drop::opcode_unknown;
  if (datagram.bytes < op.header_length + kIcrcBytes) return Drop::truncated;
  const std::size_t payload_and_pad = datagram.bytes - op.header_length - kIcrcBytes;
  // C9-37: payload and pad together are a multiple of four.
  if (payload_and_pad % 4 != 0 || packet.bth.pad > payload_and_pad) return Drop::payload_length;
  if (payload_and_pad != 0 && !op.flags.has(Op::payload)) return Drop::payload_length;
  load_extended_headers(datagram.bth + Bth::kBytes, op.flags, packet);
  packet.payload = {datagram.bth + op.header_length, payload_and_pad - packet.bth.pad};
  return Drop::none;
}

Drop parse_into(std::span<const std::byte> frame, Icrc icrc, Packet& packet) {
  const L2 l2 = parse_l2(frame);
  if (l2.l3_offset == 0) return Drop::truncated;
  packet.frame = frame.data();
  packet.l3_offset = l2.l3_offset;
  if (l2.tagged) packet.vlan = l2.tag;
  const auto l3 = frame.subspan(l2.l3_offset);
  Datagram datagram;
  Drop drop = Drop::not_roce;
  if (l2.ethertype == kEthertypeIpv4) drop = parse_ipv4(l3, packet, datagram);
  if (l2.ethertype == kEthertypeIpv6) drop = parse_ipv6(l3, packet, datagram);
  if (drop != Drop::none) return drop;
  packet.bth_offset = static_cast<uint16_t>(datagram.bth - frame.data());
  // The UDP checksum is not verified: the ICRC covers the same bytes and is stronger.
  if (drop = parse_transport(datagram, packet); drop != Drop::none) return drop;
  if (icrc == Icrc::check) {
    const std::byte* trailer = datagram.bth + datagram.bytes - kIcrcBytes;
    if (icrc_of({l3.data(), trailer}, packet.ip_version) != load_le32(trailer)) return Drop::icrc;
  }
  packet.icrc = icrc;
  return Drop::none;
}

Gid load_address(const Packet& packet, std::size_t ipv4_offset, std::size_t ipv6_offset) {
  const std::byte* ip = packet.frame + packet.l3_offset;
  if (packet.ip_version == 4) return Gid::from_ipv4(load_be32(ip + ipv4_offset));
  Gid gid;
  std::memcpy(gid.bytes.data(), ip + ipv6_offset, gid.bytes.size());
  return gid;
}

Peek peek_udp(std::span<const std::byte> l4) {
  if (l4.size() < 4 || load_be16(l4.data() + 2) != kUdpPort) return {};
  constexpr std::size_t kQpnOffset = kUdpBytes + 5;
  // A frame too short for a QPN is RoCE too: the engine that gets it counts it as truncated.
  const uint32_t qpn = l4.size() < kQpnOffset + 3 ? 0 : load_be24(l4.data() + kQpnOffset);
  return {Peek::Kind::roce, qpn};
}

}  // namespace

Gid Packet::source() const { return load_address(*this, 12, 8); }
Gid Packet::destination() const { return load_address(*this, 16, 24); }

Drop parse(std::span<const std::byte> frame, Icrc icrc, Packet& packet) {
  static_assert(std::is_trivially_destructible_v<Packet>, "it is made anew without being destroyed");
  return parse_into(frame, icrc, *::new (&packet) Packet);
}

std::expected<Packet, Drop> parse(std::span<const std::byte> frame, Icrc icrc) {
  std::expected<Packet, Drop> result;
  if (const Drop drop = parse(frame, icrc, *result); drop != Drop::none) result = std::unexpected(drop);
  return result;
}

std::expected<Packet, Drop> parse_apart(const HeaderBytes& headers, std::size_t length,
                                        std::span<const std::byte> payload) {
  const std::size_t pad = -payload.size() & 3;
  // Without an ICRC to check, nothing behind the headers is read, and those of every opcode fit into the array.
  auto result = parse({headers.data(), length + payload.size() + pad + kIcrcBytes}, Icrc::absent);
  if (!result) return result;
  const bool fits = result->payload.data() == headers.data() + length && result->payload.size() == payload.size();
  if (fits) {
    result->payload = payload;
  } else {
    result = std::unexpected(Drop::payload_length);
  }
  return result;
}

std::span<const std::byte> in_one_piece(const Packet& packet, std::span<std::byte> room) {
  if (packet.icrc != Icrc::absent) return packet.bytes();
  const std::size_t headers = packet.bth_offset + std::size_t{packet.op().header_length};
  if (headers + packet.payload.size() + packet.bth.pad + kIcrcBytes > room.size()) return {};
  std::memcpy(room.data(), packet.frame, headers);
  auto crc = IcrcState::begin(room.subspan(packet.l3_offset, headers - packet.l3_offset), packet.ip_version);
  crc.copy(room.data() + headers, packet.payload);
  const std::byte* end = crc.finish(room.data() + headers + packet.payload.size(), packet.bth.pad);
  return room.first(static_cast<std::size_t>(end - room.data()));
}

Peek peek(std::span<const std::byte> frame) {
  const L2 l2 = parse_l2(frame);
  if (l2.l3_offset == 0) return {};
  if (l2.ethertype == kEthertypeArp) return {Peek::Kind::arp};
  const auto l3 = frame.subspan(l2.l3_offset);
  const std::byte* ip = l3.data();
  if (l2.ethertype == kEthertypeIpv4 && l3.size() >= kIpv4Bytes) {
    const std::size_t header = std::size_t{load8(ip) & 0xfu} * 4;
    const bool later_fragment = (load_be16(ip + 6) & 0x1fff) != 0;
    if (header < kIpv4Bytes || header > l3.size() || later_fragment) return {};
    if (load8(ip + 9) == kProtocolIcmp) return {Peek::Kind::icmp};
    if (load8(ip + 9) == kProtocolIgmp) return {Peek::Kind::igmp};
    if (load8(ip + 9) == kProtocolUdp) return peek_udp(l3.subspan(header));
  }
  if (l2.ethertype == kEthertypeIpv6 && l3.size() >= kIpv6Bytes) {
    if (load8(ip + 6) == kProtocolIcmpv6) return {Peek::Kind::icmpv6};
    if (load8(ip + 6) == kProtocolUdp) return peek_udp(l3.subspan(kIpv6Bytes));
    const bool options = load8(ip + 6) == kProtocolHopByHop && l3.size() > kIpv6Bytes;
    if (options && load8(ip + kIpv6Bytes) == kProtocolIcmpv6) return {Peek::Kind::icmpv6};
  }
  return {};
}

}  // namespace uroce::wire
