#include "faults/match.h"

#include <algorithm>

#include "base/psn.h"
#include "faults/cm_message.h"

namespace uroce::faults {

namespace {

bool chooses_direction(Direction direction, Way way) {
  if (way == Way::loopback) return true;
  return direction == Direction::both || (direction == Direction::rx) == (way == Way::rx);
}

bool chooses_peer(const Rule& rule, Way way, const wire::Packet& packet) {
  const auto covers = [&](const Gid& gid) {
    return std::ranges::any_of(rule.peers, [&](const Prefix& one) { return one.covers(gid); });
  };
  const bool as_received = way == Way::rx || (way == Way::loopback && rule.direction != Direction::tx);
  const bool as_sent = way == Way::tx || (way == Way::loopback && rule.direction != Direction::rx);
  return (as_received && covers(packet.source())) || (as_sent && covers(packet.destination()));
}

bool chooses_opcode(const Rule& rule, const wire::Packet& packet) {
  if (rule.opcodes->test(static_cast<std::size_t>(packet.bth.opcode))) return true;
  if (!packet.op().flags.has(wire::Op::aeth)) return false;
  const wire::AethKind kind = packet.aeth.kind();
  return (rule.naks && kind == wire::AethKind::nak) || (rule.rnr_naks && kind == wire::AethKind::rnr_nak);
}

bool chooses_cm(const std::bitset<32>& messages, const wire::Packet& packet) {
  const auto attribute = cm_attribute_of(packet);
  return attribute && *attribute < messages.size() && messages.test(*attribute);
}

bool chooses_psn(const Span<uint32_t>& range, Psn psn) {
  const auto ahead = [](uint32_t from, uint32_t to) { return Psn(to - from).value(); };
  return ahead(range.first, psn.value()) <= ahead(range.first, range.last);
}

}  // namespace

bool chooses(const Rule& rule, Way way, const wire::Packet& packet) {
  if (!chooses_direction(rule.direction, way)) return false;
  if (rule.qpn && *rule.qpn != packet.bth.dest_qpn) return false;
  if (rule.opcodes && !chooses_opcode(rule, packet)) return false;
  if (rule.cm && !chooses_cm(*rule.cm, packet)) return false;
  if (rule.psn && !chooses_psn(*rule.psn, Psn(packet.bth.psn))) return false;
  if (rule.size && !rule.size->holds(static_cast<uint32_t>(packet.payload.size()))) return false;
  return rule.peers.empty() || chooses_peer(rule, way, packet);
}

}  // namespace uroce::faults
