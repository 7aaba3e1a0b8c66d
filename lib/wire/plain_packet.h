// The parser's shortcut for plain packets: RC's SENDs, WRITEs, READs, atomics, responses and ACKs, without immediate
// data, a key to invalidate, FECN and BECN, in IPv4 or IPv6 without a tag. Another one takes UD's SENDs.
//
// It is parse() without the branches that other packets need. A packet that it does not take may be another kind or
// wrong: parse() finds out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace plain {

// Lengths from the BTH to the ICRC.
inline constexpr std::size_t kAckBytes = Bth::kBytes + Aeth::kBytes + kIcrcBytes;
inline constexpr std::size_t kEmptyWriteBytes = Bth::kBytes + Reth::kBytes + kIcrcBytes;
inline constexpr std::size_t kEmptySendBytes = Bth::kBytes + kIcrcBytes;
inline constexpr std::size_t kEmptyDatagramBytes = Bth::kBytes + Deth::kBytes + kIcrcBytes;
static_assert(kEmptySendBytes < kAckBytes);  // an empty SEND is not plain

/// A set of RC's opcodes, all below 32.
class OpcodeSet {
 public:
  template <class... Opcodes>
  constexpr explicit OpcodeSet(Opcodes... opcodes) : bits_(((1u << static_cast<uint32_t>(opcodes)) | ...)) {}
  /// `opcode` is below 32.
  constexpr bool has(Opcode opcode) const { return (bits_ >> (static_cast<uint32_t>(opcode) & 31) & 1) != 0; }
  constexpr OpcodeSet operator|(OpcodeSet other) const { return OpcodeSet(Bits{bits_ | other.bits_}); }

 private:
  struct Bits {
    uint32_t value;
  };
  constexpr explicit OpcodeSet(Bits bits) : bits_(bits.value) {}
  uint32_t bits_;
};
// Opcodes with a payload are told apart by their extended headers.
inline constexpr OpcodeSet kWithReth(Opcode::rc_write_only, Opcode::rc_write_first);
inline constexpr OpcodeSet kWithoutHeader(Opcode::rc_send_only, Opcode::rc_send_first, Opcode::rc_send_middle,
                                          Opcode::rc_send_last, Opcode::rc_write_middle, Opcode::rc_write_last,
                                          Opcode::rc_read_response_middle);
inline constexpr OpcodeSet kWithAeth(Opcode::rc_read_response_only, Opcode::rc_read_response_first,
                                     Opcode::rc_read_response_last);
inline constexpr OpcodeSet kOpcodes = kWithReth | kWithoutHeader | kWithAeth |
                                      OpcodeSet(Opcode::rc_ack, Opcode::rc_read_request, Opcode::rc_compare_swap,
                                                Opcode::rc_fetch_add, Opcode::rc_atomic_ack);

// The bytes from the BTH to the ICRC; 0: not plain. The frame has at least an IPv4 header, UDP and an ACK.
template <class Kind>
inline std::size_t read_ipv4(std::span<const std::byte> frame, Packet& packet) {
  const std::byte* ip = frame.data() + kEthernetBytes;
  if (!Kind::has_opcode(ip + kIpv4Bytes + kUdpBytes)) return 0;
  // Neither MF nor an offset, and UDP.
  if ((load_be32(ip + 6) & 0x3fff00ff) != kProtocolUdp) return 0;
  const std::size_t total = load_be16(ip + 2);
  constexpr std::size_t kLeast = kIpv4Bytes + kUdpBytes + kAckBytes;
  if (total < kLeast || total > frame.size() - kEthernetBytes) return 0;
  // As in ipv4_checksum_ok(): the folded sum is 0xffff where the sum, which is not 0, is a multiple of it.
  if (ipv4_sum(ip) % 0xffff != 0) return 0;
  const std::byte* udp = ip + kIpv4Bytes;
  if (load_be32(udp + 2) != (uint32_t{kUdpPort} << 16 | static_cast<uint32_t>(total - kIpv4Bytes))) return 0;
  packet.ip_version = 4;
  packet.ecn = load8(ip + 1) & 3;
  packet.hop_limit = load8(ip + 8);
  packet.udp_source = load_be16(udp);
  packet.bth_offset = kEthernetBytes + kIpv4Bytes + kUdpBytes;
  return total - kIpv4Bytes - kUdpBytes;
}

template <class Kind>
inline std::size_t read_ipv6(std::span<const std::byte> frame, Packet& packet) {
  constexpr std::size_t kBefore = kEthernetBytes + kIpv6Bytes;
  constexpr std::size_t kLeast = kUdpBytes + kAckBytes;
  if (frame.size() < kBefore + kLeast) return 0;
  const std::byte* ip = frame.data() + kEthernetBytes;
  if (!Kind::has_opcode(ip + kIpv6Bytes + kUdpBytes)) return 0;
  if (load8(ip + 6) != kProtocolUdp) return 0;
  const std::size_t length = load_be16(ip + 4);
  if (length < kLeast || length > frame.size() - kBefore) return 0;
  const std::byte* udp = ip + kIpv6Bytes;
  if (load_be32(udp + 2) != (uint32_t{kUdpPort} << 16 | static_cast<uint32_t>(length))) return 0;
  // parse() refuses IPv4-mapped addresses. They, and no other that a host has, begin with eight zeros.
  if (load_be64(ip + 8) == 0 || load_be64(ip + 24) == 0) return 0;
  packet.ip_version = 6;
  packet.ecn = static_cast<uint8_t>(load_be16(ip) >> 4) & 3;
  packet.hop_limit = load8(ip + 7);
  packet.udp_source = load_be16(udp);
  packet.bth_offset = kBefore + kUdpBytes;
  return length - kUdpBytes;
}

// As read_transport(), for the rest. Not inlined: a WRITE needs fewer registers.
[[gnu::noinline]] inline bool read_other(const std::byte* bth, std::size_t bytes, Packet& packet) {
  const std::byte* const extended = bth + Bth::kBytes;
  if (kWithAeth.has(packet.bth.opcode)) {
    const std::size_t payload_and_pad = bytes - kAckBytes;
    if (payload_and_pad % 4 != 0 || packet.bth.pad > payload_and_pad) return false;
    packet.aeth = Aeth::load(extended);
    packet.payload = {extended + Aeth::kBytes, payload_and_pad - packet.bth.pad};
    return true;
  }
  std::size_t length = AtomicEth::kBytes;
  if (packet.bth.opcode == Opcode::rc_read_request) length = Reth::kBytes;
  if (packet.bth.opcode == Opcode::rc_atomic_ack) length = Aeth::kBytes + kAtomicAckEthBytes;
  if (bytes != Bth::kBytes + length + kIcrcBytes || packet.bth.pad != 0) return false;
  if (packet.bth.opcode == Opcode::rc_read_request) {
    packet.reth = Reth::load(extended);
  } else if (packet.bth.opcode == Opcode::rc_atomic_ack) {
    packet.aeth = Aeth::load(extended);
    packet.atomic_ack = load_be64(extended + Aeth::kBytes);
  } else {
    packet.atomic = AtomicEth::load(extended);
  }
  packet.payload = {extended + length, 0};
  return true;
}

// Reads the BTH, which has a plain opcode, the extended header and the payload from `bytes` at `bth`.
inline bool read_transport(const std::byte* bth, std::size_t bytes, Packet& packet) {
  if (!packet.bth.read_plain(bth)) return false;
  if (kWithReth.has(packet.bth.opcode)) {
    const std::size_t payload_and_pad = bytes - kEmptyWriteBytes;
    if (bytes < kEmptyWriteBytes || payload_and_pad % 4 != 0 || packet.bth.pad > payload_and_pad) return false;
    packet.reth = Reth::load(bth + Bth::kBytes);
    packet.payload = {bth + Bth::kBytes + Reth::kBytes, payload_and_pad - packet.bth.pad};
    return true;
  }
  if (kWithoutHeader.has(packet.bth.opcode)) {
    const std::size_t payload_and_pad = bytes - kEmptySendBytes;
    if (payload_and_pad % 4 != 0 || packet.bth.pad > payload_and_pad) return false;
    packet.payload = {bth + Bth::kBytes, payload_and_pad - packet.bth.pad};
    return true;
  }
  if (packet.bth.opcode != Opcode::rc_ack) return read_other(bth, bytes, packet);
  if (bytes != kAckBytes || packet.bth.pad != 0) return false;
  packet.aeth = Aeth::load(bth + Bth::kBytes);
  packet.payload = {bth + Bth::kBytes + Aeth::kBytes, 0};
  return true;
}

struct Rc {
  // Most packets that are not plain show it here.
  static bool has_opcode(const std::byte* bth) {
    const uint8_t opcode = load8(bth);
    return opcode < 32 && kOpcodes.has(static_cast<Opcode>(opcode));
  }
  static bool read(const std::byte* bth, std::size_t bytes, Packet& packet) {
    return read_transport(bth, bytes, packet);
  }
};

struct Datagram {
  static bool has_opcode(const std::byte* bth) { return load8(bth) == static_cast<uint8_t>(Opcode::ud_send_only); }
  static bool read(const std::byte* bth, std::size_t bytes, Packet& packet) {
    if (!packet.bth.read_plain(bth)) return false;
    const std::size_t payload_and_pad = bytes - kEmptyDatagramBytes;
    if (bytes < kEmptyDatagramBytes || payload_and_pad % 4 != 0 || packet.bth.pad > payload_and_pad) return false;
    packet.deth = Deth::load(bth + Bth::kBytes);
    packet.payload = {bth + Bth::kBytes + Deth::kBytes, payload_and_pad - packet.bth.pad};
    return true;
  }
};

template <class Kind>
[[gnu::always_inline]] inline bool parse_kind(std::span<const std::byte> frame, Icrc icrc, Packet& packet) {
  constexpr std::size_t kLeast = kEthernetBytes + kIpv4Bytes + kUdpBytes + kAckBytes;
  if (frame.size() < kLeast) return false;
  // The Ethertype, the IP version and, in IPv4, the header's length without options.
  const uint32_t kind = load_be32(frame.data() + kEthernetBytes - 2);
  std::size_t bytes = 0;
  if ((kind & 0xffffff00) == (uint32_t{kEthertypeIpv4} << 16 | 0x4500)) {
    bytes = read_ipv4<Kind>(frame, packet);
  } else if ((kind & 0xfffff000) == (uint32_t{kEthertypeIpv6} << 16 | 0x6000)) {
    bytes = read_ipv6<Kind>(frame, packet);
  }
  if (bytes == 0) return false;
  const std::byte* bth = frame.data() + packet.bth_offset;
  if (!Kind::read(bth, bytes, packet)) return false;
  packet.frame = frame.data();
  packet.l3_offset = kEthernetBytes;
  packet.vlan.reset();
  packet.imm = 0;
  packet.icrc = icrc;
  if (icrc != Icrc::check) return true;
  const std::byte* trailer = bth + bytes - kIcrcBytes;
  return icrc_of({frame.data() + kEthernetBytes, trailer}, packet.ip_version) == load_le32(trailer);
}

}  // namespace plain

/// True: `packet` is what parse() gives, but keeps the extended headers that it had and this frame has not. False: ask
/// parse(); `packet` has no meaning.
[[gnu::always_inline]] inline bool parse_plain(std::span<const std::byte> frame, Icrc icrc, Packet& packet) {
  return plain::parse_kind<plain::Rc>(frame, icrc, packet);
}
/// The same for a SEND of UD. Not inlined: RC needs fewer registers.
[[gnu::noinline]] inline bool parse_plain_datagram(std::span<const std::byte> frame, Icrc icrc, Packet& packet) {
  return plain::parse_kind<plain::Datagram>(frame, icrc, packet);
}

/// As parse_plain(), for a frame whose payload lies apart and that has no ICRC; `headers` as parse_apart() takes them.
inline bool parse_plain_apart(const HeaderBytes& headers, std::size_t length, std::span<const std::byte> payload,
                              Packet& packet) {
  const std::size_t pad = -payload.size() & 3;
  // Behind the headers nothing is read, and the array holds those of every opcode.
  if (!parse_plain({headers.data(), length + payload.size() + pad + kIcrcBytes}, Icrc::absent, packet)) return false;
  if (packet.payload.data() != headers.data() + length || packet.payload.size() != payload.size()) return false;
  packet.payload = payload;
  return true;
}

}  // namespace uroce::wire
