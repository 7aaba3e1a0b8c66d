// Frames that several wire tests use: hardware vectors, and one of each operation over each kind of route.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/support/encode.h"
#include "tests/support/pcap_file.h"
#include "wire/packet.h"

namespace uroce::test {

inline Bytes from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return bytes;
}

/// A CNP that a ConnectX-4 Lx sent.
inline Bytes hardware_cnp() {
  return from_hex(
      "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000"
      "000000000000000000000000000082fd002a");
}
/// A UC SEND_ONLY from hardware: pad 2, UDP checksum not zero.
inline Bytes hardware_uc_send() {
  return from_hex(
      "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630"
      "818be28935d90e9a95505401be885e50000078f353f3");
}

/// IPv4, IPv6, and both with a VLAN tag.
inline std::vector<wire::Route> sample_routes() {
  wire::Route v4;
  v4.src_mac = {{2, 0, 0, 0, 0, 1}};
  v4.dst_mac = {{2, 0, 0, 0, 0, 2}};
  v4.sgid = Gid::from_ipv4(0xc0000201);
  v4.dgid = Gid::from_ipv4(0xc0000202);
  v4.traffic_class = 0x6a;
  wire::Route v6 = v4;
  v6.sgid = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  v6.dgid = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  v6.flow_label = 0xabcde;
  v6.hop_limit = 3;
  wire::Route v4_vlan = v4;
  v4_vlan.vlan = 0x6005;
  wire::Route v6_vlan = v6;
  v6_vlan.vlan = 0x0fff;
  return {v4, v6, v4_vlan, v6_vlan};
}

/// Every opcode that the table defines.
inline std::vector<wire::Opcode> defined_opcodes() {
  std::vector<wire::Opcode> opcodes;
  for (uint32_t i = 0; i < 256; ++i) {
    const auto opcode = static_cast<wire::Opcode>(i);
    if (wire::info(opcode).name != nullptr) opcodes.push_back(opcode);
  }
  return opcodes;
}

/// Headers with a different, non-zero value in each field of the operation.
inline wire::Packet sample_packet(wire::Opcode opcode) {
  using wire::Op;
  wire::Packet p;
  p.bth.opcode = opcode;
  p.bth.solicited = true;
  p.bth.ack_request = true;
  p.bth.dest_qpn = 0x123456;
  p.bth.psn = Psn(0xfedcba);
  p.bth.pkey = 0x8001;
  p.bth.becn = opcode == wire::Opcode::cnp;
  const wire::OpFlags flags = p.op().flags;
  if (flags.has(Op::feth)) p.feth = {9, 3, 0x2345678};
  if (flags.has(Op::reth)) p.reth = {0x1122334455667788, 0x99aabbcc, 0x00ddeeff};
  if (flags.has(Op::atomic_eth)) p.atomic = {0x8877665544332210, 0x0badf00d, 0x0102030405060708, 0x1112131415161718};
  if (flags.has(Op::aeth)) p.aeth = {wire::Aeth::ack(17), 0xabcdef};
  if (flags.has(Op::atomic_ack_eth)) p.atomic_ack = 0xfeedfacecafebeef;
  if (flags.has_any(Op::imm | Op::ieth)) p.imm = 0x5eedc0de;
  if (flags.has(Op::deth)) p.deth = {0x80010000, 0, 0x654321};
  if (flags.has(Op::xrceth)) p.xrceth = {0, 0x765432};
  return p;
}

inline Bytes sample_payload(std::size_t n) {
  Bytes payload(n);
  for (std::size_t i = 0; i < n; ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}

/// The frame of `packet`, sized exactly.
inline Bytes frame_of(const wire::Packet& packet, const wire::Route& route, const Bytes& payload,
                      const Framing& framing = {}) {
  Bytes frame(wire::kMaxHeaderBytes + payload.size() + 3 + wire::kIcrcBytes);
  frame.resize(encode(frame, packet, route, payload, framing));
  return frame;
}

/// A sample frame of the operation, with eleven bytes of payload (pad 1) if it may carry any.
inline Bytes sample_frame(wire::Opcode opcode, const wire::Route& route) {
  return frame_of(sample_packet(opcode), route,
                  sample_payload(wire::info(opcode).flags.has(wire::Op::payload) ? 11 : 0));
}

/// Why `frame` is dropped; none when it is accepted.
inline wire::Drop drop_of(const Bytes& frame, wire::Icrc icrc = wire::Icrc::check) {
  const auto packet = wire::parse(frame, icrc);
  return packet ? wire::Drop::none : packet.error();
}

}  // namespace uroce::test
