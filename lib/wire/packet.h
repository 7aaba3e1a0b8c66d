// One RoCE v2 frame: Ethernet, optional 802.1Q, IPv4 or IPv6, UDP, BTH, extended headers, payload, pad, ICRC.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <span>

#include <uroce/types.h>

#include "wire/drop.h"
#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::wire {

/// How the ICRC is treated. `absent`: the frame never left this process, and the bytes in its place are arbitrary.
enum class Icrc : uint8_t { check, skip, absent };

/// A parsed frame. Views point into the frame's bytes and live as long as they do.
struct Packet {
  // Neither defaulted nor constexpr, so that GCC clears the members with plain stores. Otherwise it clears the whole
  // object with `rep stos`, which takes longer than the rest of parse().
  Packet() {}  // NOLINT(modernize-use-equals-default)

  const std::byte* frame = nullptr;  ///< Ethernet header
  uint16_t l3_offset = 0;            ///< IP header, bytes from `frame`
  uint16_t bth_offset = 0;
  uint8_t ip_version = 0;  ///< 4 or 6
  uint8_t ecn = 0;         ///< 2 bits: 3 is congestion experienced
  uint8_t hop_limit = 0;
  Icrc icrc = Icrc::skip;          ///< what was done; absent: the payload may stand apart from the headers
  std::optional<uint16_t> vlan{};  ///< tag control information: priority 3, DEI 1, id 12 bits
  uint16_t udp_source = 0;
  Bth bth{};
  // Valid only if info(bth.opcode).flags has the header.
  Feth feth{};
  Reth reth{};
  AtomicEth atomic{};
  Aeth aeth{};
  uint64_t atomic_ack = 0;
  uint32_t imm = 0;  ///< immediate data or the rkey to invalidate, host byte order
  Deth deth{};
  Xrceth xrceth{};
  std::span<const std::byte> payload{};  ///< without pad and ICRC

  const OpcodeInfo& op() const { return info(bth.opcode); }
  /// The frame from Ethernet to ICRC. Not for a packet that lacks it: see in_one_piece().
  std::span<const std::byte> bytes() const { return {frame, payload.data() + payload.size() + bth.pad + kIcrcBytes}; }
  /// IPv4 addresses are ::ffff:a.b.c.d.
  Gid source() const;
  Gid destination() const;
};

/// Parses and checks one whole frame: lengths, IP header, BTH version, opcode, pad, ICRC. It ignores bytes after the IP
/// total length (Ethernet padding), reads nothing outside `frame`, and keeps no state.
std::expected<Packet, Drop> parse(std::span<const std::byte> frame, Icrc icrc = Icrc::check);
/// The same into `packet`, which has no meaning unless Drop::none is returned.
Drop parse(std::span<const std::byte> frame, Icrc icrc, Packet& packet);

/// The most bytes from Ethernet to the last extended header, and some more.
inline constexpr std::size_t kHeaderRoom = 128;
using HeaderBytes = std::array<std::byte, kHeaderRoom>;
/// As parse(), for a frame that never left this process: `length` bytes of headers, and `payload` apart from them.
/// There are no pad and no ICRC, but the headers' lengths count them.
std::expected<Packet, Drop> parse_apart(const HeaderBytes& headers, std::size_t length,
                                        std::span<const std::byte> payload);

/// The packet's frame, from Ethernet to a valid ICRC: where it stands, or written into `room` if it lacks the ICRC.
/// Empty when `room` is too small. The payload is read once.
std::span<const std::byte> in_one_piece(const Packet& packet, std::span<std::byte> room);

/// A frame's kind, from its first bytes, for steering. Only `roce` has a `dest_qpn`.
struct Peek {
  /// `icmpv6` includes ICMPv6 after hop-by-hop options, as in MLD.
  enum class Kind : uint8_t { roce, arp, icmp, igmp, icmpv6, other } kind = Kind::other;
  uint32_t dest_qpn = 0;
};
Peek peek(std::span<const std::byte> frame);

/// The Ethernet address of a multicast group: 01:00:5e and 23 bits (RFC 1112, 6.4), 33:33 and 32 bits (RFC 2464, 7).
EthAddr multicast_mac(const Gid& group);

/// Everything that a sender needs for the headers below the BTH: one per (peer, traffic class, VLAN).
struct Route {
  EthAddr src_mac{};
  EthAddr dst_mac{};
  std::optional<uint16_t> vlan{};
  Gid sgid{};  ///< both IPv4-mapped or both IPv6
  Gid dgid{};
  uint8_t traffic_class = 0;  ///< DSCP 6 bits, ECN 2 bits
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  ///< IPv6 only, 20 bits
};

/// The headers from Ethernet to UDP. They are prepared once and copied into every packet; write_l2_to_l4() fills in the
/// lengths, the checksum and the source port of each packet.
struct RouteTemplate {
  std::array<std::byte, 66> bytes{};
  uint8_t length = 0;             ///< 42 to 66
  uint8_t l3_offset = 0;          ///< 14 or 18
  uint8_t ip_version = 0;         ///< 4 or 6
  uint32_t ipv4_partial_sum = 0;  ///< ones'-complement sum of the constant IPv4 header words, 16 bits

  bool operator==(const RouteTemplate&) const = default;
};
RouteTemplate make_template(const Route& route);
/// The template's IP destination; IPv4 as ::ffff:a.b.c.d.
Gid destination_of(const RouteTemplate& t);
/// The template's IP source, likewise.
Gid source_of(const RouteTemplate& t);
/// The route of which make_template() makes `t`; nullopt: of none.
std::optional<Route> route_of(const RouteTemplate& t);
/// The Ethernet destination is the first field of every frame.
inline void set_dst_mac(std::byte* frame, const EthAddr& mac) {
  std::memcpy(frame, mac.bytes.data(), mac.bytes.size());
}

/// Writes the template at `out` with lengths for `l4_bytes` bytes after the UDP header (BTH .. ICRC), the IPv4
/// header checksum (unless `offload_ip_checksum`, which leaves it 0), IPv4 DF set, UDP checksum 0 (IPv4 and
/// IPv6, annex A17.3.1). `ecn`: two bits for the ECN field; if not 0, that field must be 0 in the template. Returns the
/// number of bytes written, `t.length`.
std::size_t write_l2_to_l4(std::byte* out, const RouteTemplate& t, uint16_t udp_source, std::size_t l4_bytes,
                           uint16_t ipv4_id, bool offload_ip_checksum = false, uint8_t ecn = 0);

/// The UDP source port of a flow (annex A17.3.1; values as Linux and RNICs choose them), 0xC000..0xFFFF.
/// `flow_label` 0 derives it from the QPNs.
uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);

/// Copies 42 to 66 bytes as overlapping blocks of fixed size, without a call or a loop.
inline void copy_template(std::byte* out, const RouteTemplate& t) {
  static_assert(kEthernetBytes + kVlanBytes + kIpv6Bytes + kUdpBytes == sizeof(RouteTemplate::bytes));
  const std::size_t n = t.length;
  std::memcpy(out, t.bytes.data(), 32);
  if (n > 46) std::memcpy(out + 24, t.bytes.data() + 24, 32);
  std::memcpy(out + n - 32, t.bytes.data() + n - 32, 32);
}

// Inlined: a caller that writes one kind of packet leaves out what does not concern it.
inline std::size_t write_l2_to_l4(std::byte* out, const RouteTemplate& t, uint16_t udp_source, std::size_t l4_bytes,
                                  uint16_t ipv4_id, bool offload_ip_checksum, uint8_t ecn) {
  assert(l4_bytes + kIpv4Bytes + kUdpBytes <= 0xffff);
  copy_template(out, t);
  std::byte* ip = out + t.l3_offset;
  std::byte* udp = out + t.length - kUdpBytes;
  const auto udp_length = static_cast<uint16_t>(l4_bytes + kUdpBytes);
  store_be16(udp, udp_source);
  store_be16(udp + 4, udp_length);
  if (t.ip_version == 6) {
    store_be16(ip + 4, udp_length);
    if (ecn != 0) ip[1] = t.bytes[t.l3_offset + 1u] | static_cast<std::byte>(ecn << 4);
    return t.length;
  }
  // Read the template, not the bytes just stored: a load right after a wider store stalls.
  if (ecn != 0) ip[1] = t.bytes[t.l3_offset + 1u] | static_cast<std::byte>(ecn);
  const auto total = static_cast<uint16_t>(udp_length + kIpv4Bytes);
  store_be16(ip + 2, total);
  store_be16(ip + 4, ipv4_id);
  if (!offload_ip_checksum) {
    const uint32_t sum =
        t.ipv4_partial_sum + __builtin_bswap16(total) + __builtin_bswap16(ipv4_id) + __builtin_bswap16(ecn);
    const auto checksum = static_cast<uint16_t>(~fold(sum));
    std::memcpy(ip + 10, &checksum, sizeof checksum);  // the sum is in wire order, see ipv4_sum()
  }
  return t.length;
}

}  // namespace uroce::wire
