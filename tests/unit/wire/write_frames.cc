// Writes a capture with a frame of every operation over every kind of route, and a second file with the fields of each
// frame as lines of key=value, for tshark_test.py.
//
// Usage: write_frames CAPTURE EXPECTATIONS
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/unit/wire/samples.h"

namespace uroce {
namespace {

using wire::Op;

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string expectation(const wire::Packet& p, const wire::Route& route) {
  std::string line = "opcode=" + hex(static_cast<uint8_t>(p.bth.opcode));
  const auto add = [&](const char* key, uint64_t value) { line += " " + std::string(key) + "=" + hex(value); };
  add("ip_version", route.sgid.is_ipv4() ? 4 : 6);
  add("vlan", route.vlan ? *route.vlan & 0xfffu : 0);
  add("destqp", p.bth.dest_qpn);
  add("psn", p.bth.psn.value());
  add("pkey", p.bth.pkey);
  add("pad", p.bth.pad);
  add("se", p.bth.solicited);
  add("ack_req", p.bth.ack_request);
  const wire::OpFlags flags = p.op().flags;
  if (flags.has(Op::reth)) {
    add("va", p.reth.va);
    add("rkey", p.reth.rkey);
    add("length", p.reth.length);
  }
  if (flags.has(Op::atomic_eth)) {
    add("va", p.atomic.va);
    add("rkey", p.atomic.rkey);
    add("swap", p.atomic.swap_add);
    add("compare", p.atomic.compare);
  }
  if (flags.has(Op::aeth)) {
    add("syndrome", p.aeth.syndrome);
    add("msn", p.aeth.msn);
  }
  if (flags.has(Op::atomic_ack_eth)) add("original", p.atomic_ack);
  if (flags.has(Op::imm)) add("imm", p.imm);
  if (flags.has(Op::ieth)) add("ieth", p.imm);
  if (flags.has(Op::deth)) {
    add("qkey", p.deth.qkey);
    add("srcqp", p.deth.src_qpn);
  }
  if (flags.has(Op::xrceth)) add("srq", p.xrceth.srqn);
  return line;
}

int run(const char* capture, const char* expectations) {
  std::vector<test::Bytes> frames;
  std::ofstream out(expectations);
  const auto take = [&](const wire::Packet& packet, const wire::Route& route, std::size_t payload) {
    frames.push_back(test::frame_of(packet, route, test::sample_payload(payload)));
    wire::Packet sent = packet;
    sent.bth.pad = static_cast<uint8_t>((4 - payload % 4) % 4);
    const auto& frame = frames.back();
    out << expectation(sent, route) << " icrc=" << hex(load_be32(frame.data() + frame.size() - 4)) << "\n";
  };
  for (const wire::Route& route : test::sample_routes()) {
    for (const wire::Opcode opcode : test::defined_opcodes()) {
      const wire::Packet packet = test::sample_packet(opcode);
      take(packet, route, packet.op().flags.has(Op::payload) ? 1021 : 0);
    }
    for (const uint8_t syndrome : {wire::Aeth::rnr(12), wire::Aeth::nak(wire::NakCode::psn_sequence),
                                   wire::Aeth::nak(wire::NakCode::remote_operational), wire::Aeth::ack(31)}) {
      wire::Packet ack = test::sample_packet(wire::Opcode::rc_ack);
      ack.aeth.syndrome = syndrome;
      take(ack, route, 0);
    }
  }
  test::write_pcap(capture, frames);
  return out.flush() ? 0 : 1;
}

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_frames CAPTURE EXPECTATIONS\n");
    return 2;
  }
  return uroce::run(argv[1], argv[2]);
}
