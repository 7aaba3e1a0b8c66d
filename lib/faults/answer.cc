#include "faults/answer.h"

#include <cstring>

#include "base/bytes.h"
#include "faults/cm_message.h"
#include "wire/ethernet.h"
#include "wire/gsi.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/load_mac.h"

namespace uroce::faults {

namespace {

constexpr std::size_t kMad = 256, kMadHeader = 24, kModifier = 20;
constexpr uint16_t kReq = 0x10, kRej = 0x12;
/// 0.64 ms (IBTA vol. 1, table 46).
constexpr uint8_t kRnrTimer = 12;

wire::Route way_back(const wire::Packet& packet) {
  wire::Route route{.src_mac = wire::load_mac(packet.frame), .dst_mac = wire::load_mac(packet.frame + 6)};
  if (packet.vlan) route.vlan = static_cast<uint16_t>(*packet.vlan & 0xfff);
  route.sgid = packet.destination();
  route.dgid = packet.source();
  return route;
}

uint8_t syndrome_of(Answer answer) {
  using wire::Aeth;
  using wire::NakCode;
  switch (answer) {
    case Answer::rnr: return Aeth::rnr(kRnrTimer);
    case Answer::psn: return Aeth::nak(NakCode::psn_sequence);
    case Answer::invalid: return Aeth::nak(NakCode::invalid_request);
    case Answer::access: return Aeth::nak(NakCode::remote_access);
    case Answer::operational:
    case Answer::reject: break;
  }
  return Aeth::nak(NakCode::remote_operational);
}

/// IBTA vol. 1, 12.6.7: the passive side has no id yet, so that its own is 0, and a REQ is what it answers.
void write_rej(const wire::Packet& req, uint16_t reason, std::byte* mad) {
  std::memset(mad, 0, kMad);
  std::memcpy(mad, req.payload.data(), kMadHeader);
  store_be16(mad + kMadAttribute, kRej);
  store_be32(mad + kModifier, 0);
  std::memcpy(mad + kMadHeader + 4, req.payload.data() + kMadHeader, 4);
  store_be16(mad + kMadHeader + 10, reason);
}

bool is_req(const wire::Packet& packet) { return packet.payload.size() == kMad && cm_attribute_of(packet) == kReq; }

}  // namespace

bool has_answer(const Rule& rule, const wire::Packet& packet) {
  if (rule.answer == Answer::reject) return is_req(packet);
  const auto transport = wire::transport_of(packet.bth.opcode);
  if (transport != wire::Transport::rc && transport != wire::Transport::xrc) return false;
  const auto& flags = packet.op().flags;
  if (rule.answer != Answer::rnr) return flags.has(wire::Op::request);
  // A responder lacks a receive at the packet that takes one: a SEND's first, a WRITE's last.
  return flags.has(wire::Op::takes_recv) && (flags.has(wire::Op::first) || flags.has(wire::Op::write));
}

std::size_t write_answer(const Rule& rule, const wire::Packet& packet, uint32_t asker, std::span<std::byte> out) {
  const bool rejects = rule.answer == Answer::reject;
  const std::size_t l4 = wire::Bth::kBytes + (rejects ? wire::Deth::kBytes + kMad : wire::Aeth::kBytes);
  const wire::Route route = way_back(packet);
  const wire::RouteTemplate headers = wire::make_template(route);
  const std::size_t length = headers.length + l4 + wire::kIcrcBytes;
  if (length > out.size()) return 0;
  std::byte* const frame = out.data();
  std::byte* const bth = frame + wire::write_l2_to_l4(frame, headers, packet.udp_source, l4 + wire::kIcrcBytes, 0);
  wire::Bth base{.pkey = packet.bth.pkey, .dest_qpn = asker, .psn = packet.bth.psn};
  if (rejects) {
    base.opcode = wire::Opcode::ud_send_only;
    wire::Deth{.qkey = wire::kGsiQkey, .src_qpn = wire::kGsiQpn}.store(bth + wire::Bth::kBytes);
    write_rej(packet, rule.reason, bth + wire::Bth::kBytes + wire::Deth::kBytes);
  } else {
    const bool of_xrc = wire::transport_of(packet.bth.opcode) == wire::Transport::xrc;
    base.opcode = of_xrc ? wire::Opcode::xrc_ack : wire::Opcode::rc_ack;
    wire::Aeth{.syndrome = syndrome_of(rule.answer)}.store(bth + wire::Bth::kBytes);
  }
  base.store(bth);
  const std::size_t covered = length - wire::kIcrcBytes - headers.l3_offset;
  store_le32(frame + length - wire::kIcrcBytes,
             wire::icrc_of(out.subspan(headers.l3_offset, covered), headers.ip_version));
  return length;
}

}  // namespace uroce::faults
