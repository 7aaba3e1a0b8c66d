#include "wire/text.h"

#include <fmt/format.h>

#include <iterator>

#include "wire/recovery_text.h"
#include "wire/text_names.h"

namespace uroce::wire {
namespace {

using Out = std::back_insert_iterator<std::string>;

void put_mac(Out out, const std::byte* mac) {
  for (int i = 0; i < 6; ++i) fmt::format_to(out, "{}{:02x}", i == 0 ? "" : ":", load8(mac + i));
}

void put_ip(Out out, const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_ipv4()) {
    fmt::format_to(out, "{}.{}.{}.{}", b[12], b[13], b[14], b[15]);
    return;
  }
  for (std::size_t i = 0; i < 16; i += 2) fmt::format_to(out, "{}{:x}", i == 0 ? "" : ":", b[i] << 8 | b[i + 1]);
}

void put_addresses(Out out, const Packet& packet) {
  put_mac(out, packet.frame + 6);
  fmt::format_to(out, ">");
  put_mac(out, packet.frame);
  if (packet.vlan) fmt::format_to(out, " vlan={:#06x}", *packet.vlan);
  fmt::format_to(out, " ");
  put_ip(out, packet.source());
  fmt::format_to(out, ">");
  put_ip(out, packet.destination());
  fmt::format_to(out, " udp={} ", packet.udp_source);
}

void put_bth(Out out, const Bth& bth) {
  fmt::format_to(out, " qp={:#x} psn={}", bth.dest_qpn, bth.psn.value());
  if (bth.pkey != 0xffff) fmt::format_to(out, " pkey={:#x}", bth.pkey);
  if (bth.solicited) fmt::format_to(out, " se");
  if (!bth.migrated) fmt::format_to(out, " mig=0");
  if (bth.fecn) fmt::format_to(out, " fecn");
  if (bth.becn) fmt::format_to(out, " becn");
  if (bth.reserved6 != 0) fmt::format_to(out, " rsv6={:#x}", bth.reserved6);
  if (bth.ack_request) fmt::format_to(out, " ack_req");
  if (bth.reserved7 != 0) fmt::format_to(out, " rsv7={:#x}", bth.reserved7);
}

void put_aeth(Out out, const Aeth& aeth) {
  switch (aeth.kind()) {
    case AethKind::ack: fmt::format_to(out, " syndrome=ack credits={}", aeth.code()); break;
    case AethKind::rnr_nak: fmt::format_to(out, " syndrome=rnr timer={}", aeth.code()); break;
    case AethKind::nak:
      if (aeth.code() < std::size(kNakNames)) {
        fmt::format_to(out, " syndrome=nak code={}", kNakNames[aeth.code()]);
      } else {
        fmt::format_to(out, " syndrome=nak code={}", aeth.code());
      }
      break;
    default: fmt::format_to(out, " syndrome={:#x}", aeth.syndrome); break;
  }
  fmt::format_to(out, " msn={}", aeth.msn);
}

void put_atomic(Out out, const AtomicEth& atomic, bool is_add) {
  fmt::format_to(out, " va={:#x} rkey={:#x}", atomic.va, atomic.rkey);
  if (is_add) {
    fmt::format_to(out, " add={:#x}", atomic.swap_add);
    // FETCH_ADD ignores the compare value, but the header has it.
    if (atomic.compare != 0) fmt::format_to(out, " compare={:#x}", atomic.compare);
  } else {
    fmt::format_to(out, " compare={:#x} swap={:#x}", atomic.compare, atomic.swap_add);
  }
}

void put_transport(Out out, const Packet& packet) {
  const OpcodeInfo& op = packet.op();
  if (op.name == nullptr) {
    fmt::format_to(out, "OPCODE_{:02x}", static_cast<uint8_t>(packet.bth.opcode));
    put_bth(out, packet.bth);
    return;
  }
  const OpFlags flags = op.flags;
  fmt::format_to(out, "{}{}", transport_prefix(transport_of(packet.bth.opcode)), op.name);
  put_bth(out, packet.bth);
  if (flags.has(Op::deth)) {
    fmt::format_to(out, " qkey={:#x} src_qp={:#x}", packet.deth.qkey, packet.deth.src_qpn);
    if (packet.deth.reserved != 0) fmt::format_to(out, " deth_rsv={:#x}", packet.deth.reserved);
  }
  if (flags.has(Op::xrceth)) {
    fmt::format_to(out, " srq={:#x}", packet.xrceth.srqn);
    if (packet.xrceth.reserved != 0) fmt::format_to(out, " xrceth_rsv={:#x}", packet.xrceth.reserved);
  }
  if (flags.has(Op::feth)) {
    fmt::format_to(out, " plt={:#x} sel={}", packet.feth.placement, packet.feth.selectivity);
    if (packet.feth.reserved != 0) fmt::format_to(out, " feth_rsv={:#x}", packet.feth.reserved);
  }
  if (flags.has(Op::reth)) {
    fmt::format_to(out, " va={:#x} rkey={:#x} len={}", packet.reth.va, packet.reth.rkey, packet.reth.length);
  }
  if (flags.has(Op::atomic_eth)) put_atomic(out, packet.atomic, as_rc(packet.bth.opcode) == Opcode::rc_fetch_add);
  if (flags.has(Op::aeth)) put_aeth(out, packet.aeth);
  if (flags.has(Op::atomic_ack_eth)) fmt::format_to(out, " orig={:#x}", packet.atomic_ack);
  if (flags.has(Op::imm)) fmt::format_to(out, " imm={:#x}", packet.imm);
  if (flags.has(Op::ieth)) fmt::format_to(out, " inv_rkey={:#x}", packet.imm);
  if (const auto fields = recovery_text(packet.bth.opcode, packet.payload)) {
    fmt::format_to(out, "{}", *fields);
  } else if (flags.has(Op::payload)) {
    fmt::format_to(out, " payload={}", packet.payload.size());
  }
}

}  // namespace

std::string to_text(const Packet& packet, bool addresses) {
  std::string text;
  const Out out = std::back_inserter(text);
  if (addresses && packet.frame != nullptr) put_addresses(out, packet);
  put_transport(out, packet);
  return text;
}

}  // namespace uroce::wire
