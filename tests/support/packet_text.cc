#include "tests/support/packet_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>

#include "tests/support/recovery_fields.h"
#include "wire/text_names.h"

namespace uroce::test {

using namespace wire;

namespace {

constexpr std::size_t kMaxPayload = 65000;

/// Why a word is wrong; empty when it is right.
using Complaint = std::string;

std::string_view next_word(std::string_view& line) {
  const std::size_t start = line.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return line = {};
  line.remove_prefix(start);
  const std::size_t end = std::min(line.find_first_of(" \t\r\n"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::optional<Opcode> find_opcode(Transport transport, std::string_view name) {
  for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    if (transport_of(opcode) == transport && kOpcodes[i].name != nullptr && name == kOpcodes[i].name) return opcode;
  }
  return std::nullopt;
}

Complaint set_syndrome(Aeth& aeth, std::string_view value) {
  const uint8_t code = aeth.code();
  if (value == "ack") {
    aeth.syndrome = Aeth::ack(code);
  } else if (value == "rnr") {
    aeth.syndrome = Aeth::rnr(0);
  } else if (value == "nak") {
    aeth.syndrome = Aeth::nak(NakCode::psn_sequence);
  } else {
    return set_number(aeth.syndrome, "syndrome", value, 8);
  }
  return {};
}

/// Sets the low five bits of a syndrome. Their field name depends on the syndrome's kind.
Complaint set_code(Aeth& aeth, AethKind kind, std::string_view key, std::string_view value) {
  if (aeth.kind() != kind)
    return fmt::format("{}= does not fit this syndrome: write a matching syndrome= before it", key);
  uint8_t code = 0;
  const auto* const name = std::find(kNakNames.begin(), kNakNames.end(), value);
  if (kind == AethKind::nak && name != kNakNames.end()) {
    code = static_cast<uint8_t>(name - kNakNames.begin());
  } else if (Complaint c = set_number(code, key, value, 5); !c.empty()) {
    return c;
  }
  aeth.syndrome = static_cast<uint8_t>((aeth.syndrome & 0xe0) | code);
  return {};
}

bool set_flag(Bth& bth, std::string_view word) {
  if (word == "se") return bth.solicited = true;
  if (word == "ack_req") return bth.ack_request = true;
  if (word == "fecn") return bth.fecn = true;
  if (word == "becn") return bth.becn = true;
  return false;
}

std::optional<Complaint> set_bth(Bth& bth, std::string_view key, std::string_view value) {
  if (key == "qp") return set_number(bth.dest_qpn, key, value, 24);
  if (key == "pkey") return set_number(bth.pkey, key, value, 16);
  if (key == "rsv6") return set_number(bth.reserved6, key, value, 6);
  if (key == "rsv7") return set_number(bth.reserved7, key, value, 7);
  if (key == "mig") return set_number(bth.migrated, key, value, 1);
  if (key == "psn") {
    uint32_t psn = 0;
    Complaint c = set_number(psn, key, value, 24);
    bth.psn = Psn(psn);
    return c;
  }
  return std::nullopt;
}

std::optional<Complaint> set_aeth(Aeth& aeth, std::string_view key, std::string_view value) {
  if (key == "syndrome") return set_syndrome(aeth, value);
  if (key == "credits") return set_code(aeth, AethKind::ack, key, value);
  if (key == "timer") return set_code(aeth, AethKind::rnr_nak, key, value);
  if (key == "code") return set_code(aeth, AethKind::nak, key, value);
  if (key == "msn") return set_number(aeth.msn, key, value, 24);
  return std::nullopt;
}

/// No value: the operation has no such field.
std::optional<Complaint> set_extended(Packet& packet, OpFlags flags, std::string_view key, std::string_view value) {
  if (flags.has(Op::feth)) {
    if (key == "plt") return set_number(packet.feth.placement, key, value, 4);
    if (key == "sel") return set_number(packet.feth.selectivity, key, value, 2);
    if (key == "feth_rsv") return set_number(packet.feth.reserved, key, value, 26);
  }
  if (flags.has(Op::reth)) {
    if (key == "va") return set_number(packet.reth.va, key, value, 64);
    if (key == "rkey") return set_number(packet.reth.rkey, key, value, 32);
    if (key == "len") return set_number(packet.reth.length, key, value, 32);
  }
  if (flags.has(Op::atomic_eth)) {
    if (key == "va") return set_number(packet.atomic.va, key, value, 64);
    if (key == "rkey") return set_number(packet.atomic.rkey, key, value, 32);
    if (key == "compare") return set_number(packet.atomic.compare, key, value, 64);
    if (key == "swap" || key == "add") return set_number(packet.atomic.swap_add, key, value, 64);
  }
  if (flags.has(Op::deth)) {
    if (key == "qkey") return set_number(packet.deth.qkey, key, value, 32);
    if (key == "src_qp") return set_number(packet.deth.src_qpn, key, value, 24);
    if (key == "deth_rsv") return set_number(packet.deth.reserved, key, value, 8);
  }
  if (flags.has(Op::xrceth)) {
    if (key == "srq") return set_number(packet.xrceth.srqn, key, value, 24);
    if (key == "xrceth_rsv") return set_number(packet.xrceth.reserved, key, value, 8);
  }
  if (flags.has(Op::atomic_ack_eth) && key == "orig") return set_number(packet.atomic_ack, key, value, 64);
  if (flags.has(Op::imm) && key == "imm") return set_number(packet.imm, key, value, 32);
  if (flags.has(Op::ieth) && key == "inv_rkey") return set_number(packet.imm, key, value, 32);
  return flags.has(Op::aeth) ? set_aeth(packet.aeth, key, value) : std::nullopt;
}

Complaint set_field(TextPacket& text, RecoveryFields& recovery, std::string_view word) {
  Packet& packet = text.packet;
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    const bool known = set_flag(packet.bth, word) || recovery.set(word, {});
    return known ? Complaint{} : fmt::format("'{}' is neither a flag nor key=value", word);
  }
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);
  const OpFlags flags = packet.op().flags;
  if (auto c = set_bth(packet.bth, key, value)) return *c;
  if (auto c = set_extended(packet, flags, key, value)) return *c;
  if (auto c = recovery.set(key, value)) return *c;
  if (key == "payload" && flags.has(Op::payload)) {
    if (Complaint c = set_number(text.payload_length, key, value, 32); !c.empty()) return c;
    return text.payload_length <= kMaxPayload ? Complaint{}
                                              : fmt::format("{} is longer than the limit of {}", word, kMaxPayload);
  }
  return fmt::format("{} has no field '{}'", packet.op().name, key);
}

/// Reads transport and operation. The names ACK, NAK and RNR are one opcode with different syndromes.
Complaint set_operation(Packet& packet, std::string_view& line) {
  std::string_view word = next_word(line);
  Transport transport = Transport::rc;
  for (const Transport t : {Transport::rc, Transport::uc, Transport::ud, Transport::xrc}) {
    if (!word.empty() && transport_prefix(t).starts_with(word) && transport_prefix(t).size() == word.size() + 1) {
      transport = t;
      word = next_word(line);
      break;
    }
  }
  if (word.empty()) return "the operation is missing";
  if (word == "CNP") transport = Transport::cnp;
  if (word == "HELLO" || word == "SACK") transport = Transport::manufacturer;
  const bool answers = transport == Transport::rc || transport == Transport::xrc;
  const bool nak = answers && word == "NAK";
  const bool rnr = answers && word == "RNR";
  const std::optional<Opcode> opcode = nak || rnr ? as(transport, Opcode::rc_ack) : find_opcode(transport, word);
  if (!opcode) return fmt::format("unknown operation '{}{}'", transport_prefix(transport), word);
  packet.bth.opcode = *opcode;
  packet.aeth.syndrome = nak ? Aeth::nak(NakCode::psn_sequence) : rnr ? Aeth::rnr(0) : Aeth::ack(Aeth::kNoCreditLimit);
  return {};
}

}  // namespace

Result<TextPacket> from_text(std::string_view line) {
  TextPacket text;
  std::string_view rest = line;
  Complaint complaint = set_operation(text.packet, rest);
  RecoveryFields recovery(text.packet.bth.opcode);
  for (std::string_view word = next_word(rest); complaint.empty() && !word.empty(); word = next_word(rest)) {
    complaint = set_field(text, recovery, word);
  }
  if (complaint.empty()) complaint = recovery.store(text.content);
  if (!complaint.empty()) {
    return fail(EINVAL, fmt::format("packet text '{}': {}; lib/wire/text.h has the grammar", line, complaint));
  }
  if (!text.packet.op().flags.has(Op::aeth)) text.packet.aeth = {};
  if (!text.content.empty()) text.payload_length = text.content.size();
  text.packet.bth.pad = static_cast<uint8_t>((4 - text.payload_length % 4) % 4);
  return text;
}

std::string to_text(const TextPacket& text) {
  // The bytes are those of no HELLO or SACK, whose fields would be shown.
  static const std::vector<std::byte> kOtherContent(kMaxPayload, std::byte{0xff});
  Packet packet = text.packet;
  packet.payload = text.content.empty() ? std::span(kOtherContent).first(text.payload_length) : std::span(text.content);
  return wire::to_text(packet);
}

}  // namespace uroce::test
