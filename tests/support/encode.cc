#include "tests/support/encode.h"

#include <algorithm>
#include <cstring>

#include "wire/ethernet.h"
#include "wire/icrc.h"

namespace uroce::test {

using namespace wire;

namespace {

void store_ipv4_checksum(std::byte* ip) {
  std::memset(ip + 10, 0, 2);
  const auto checksum = static_cast<uint16_t>(~fold(ipv4_sum(ip)));
  std::memcpy(ip + 10, &checksum, sizeof checksum);
}

}  // namespace

std::size_t store_headers(std::byte* out, const Packet& packet) {
  const OpcodeInfo& op = packet.op();
  std::byte* p = out;
  packet.bth.store(p);
  p += Bth::kBytes;
  if (op.flags.has(Op::deth)) {
    packet.deth.store(p);
    p += Deth::kBytes;
  }
  if (op.flags.has(Op::xrceth)) {
    packet.xrceth.store(p);
    p += Xrceth::kBytes;
  }
  if (op.flags.has(Op::feth)) {
    packet.feth.store(p);
    p += Feth::kBytes;
  }
  if (op.flags.has(Op::reth)) {
    packet.reth.store(p);
    p += Reth::kBytes;
  }
  if (op.flags.has(Op::atomic_eth)) {
    packet.atomic.store(p);
    p += AtomicEth::kBytes;
  }
  if (op.flags.has(Op::aeth)) {
    packet.aeth.store(p);
    p += Aeth::kBytes;
  }
  if (op.flags.has(Op::atomic_ack_eth)) {
    store_be64(p, packet.atomic_ack);
    p += kAtomicAckEthBytes;
  }
  if (op.flags.has_any(Op::imm | Op::ieth)) {
    store_be32(p, packet.imm);
    p += kImmBytes;
  }
  std::fill(p, out + op.header_length, std::byte{0});
  return op.header_length;
}

Route route_of(const Packet& packet) {
  Route route;
  std::memcpy(route.dst_mac.bytes.data(), packet.frame, 6);
  std::memcpy(route.src_mac.bytes.data(), packet.frame + 6, 6);
  route.vlan = packet.vlan;
  route.sgid = packet.source();
  route.dgid = packet.destination();
  route.hop_limit = packet.hop_limit;
  const std::byte* ip = packet.frame + packet.l3_offset;
  if (packet.ip_version == 4) {
    route.traffic_class = load8(ip + 1);
  } else {
    route.traffic_class = static_cast<uint8_t>(load_be16(ip) >> 4);
    route.flow_label = load_be32(ip) & 0xfffff;
  }
  return route;
}

Framing framing_of(const Packet& packet) {
  const std::byte* ip = packet.frame + packet.l3_offset;
  Framing framing;
  framing.udp_source = packet.udp_source;
  framing.udp_checksum = load_be16(packet.frame + packet.bth_offset - 2);
  if (packet.ip_version == 4) {
    framing.ipv4_id = load_be16(ip + 4);
    framing.dont_fragment = (load8(ip + 6) & 0x40) != 0;
  }
  return framing;
}

std::size_t encode(std::span<std::byte> out, const Packet& packet, const Route& route,
                   std::span<const std::byte> payload, const Framing& framing) {
  const RouteTemplate t = make_template(route);
  const std::size_t pad = (4 - payload.size() % 4) % 4;
  const std::size_t l4_bytes = packet.op().header_length + payload.size() + pad + kIcrcBytes;
  if (packet.op().name == nullptr || l4_bytes > 0xffff - kIpv4Bytes - kUdpBytes) return 0;
  if (out.size() < t.length + l4_bytes) return 0;
  std::byte* p = out.data();
  p += write_l2_to_l4(p, t, framing.udp_source, l4_bytes, framing.ipv4_id);
  store_be16(p - 2, framing.udp_checksum);
  std::byte* ip = out.data() + t.l3_offset;
  if (t.ip_version == 4 && !framing.dont_fragment) {
    store_be16(ip + 6, 0);
    store_ipv4_checksum(ip);
  }
  Packet headers = packet;
  headers.bth.pad = static_cast<uint8_t>(pad);
  p += store_headers(p, headers);
  p = std::copy(payload.begin(), payload.end(), p);
  p = std::fill_n(p, pad, std::byte{0});
  store_le32(p, icrc_of({ip, p}, t.ip_version));
  return t.length + l4_bytes;
}

bool reseal(std::span<std::byte> frame) {
  const L2 l2 = parse_l2(frame);
  if (l2.l3_offset == 0) return false;
  const bool ipv4 = l2.ethertype == kEthertypeIpv4;
  if (!ipv4 && l2.ethertype != kEthertypeIpv6) return false;
  const auto l3 = frame.subspan(l2.l3_offset);
  const std::size_t least = (ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + Bth::kBytes + kIcrcBytes;
  if (l3.size() < least) return false;
  const std::size_t total = ipv4 ? load_be16(l3.data() + 2) : kIpv6Bytes + load_be16(l3.data() + 4);
  if (total < least || total > l3.size()) return false;
  if (ipv4) store_ipv4_checksum(l3.data());
  const auto covered = l3.first(total - kIcrcBytes);
  store_le32(l3.data() + covered.size(), icrc_of(covered, ipv4 ? 4 : 6));
  return true;
}

}  // namespace uroce::test
