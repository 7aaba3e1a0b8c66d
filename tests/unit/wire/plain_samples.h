// Helpers of the tests of the parser's shortcuts: the plain opcodes, and packets compared with those of parse().
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "tests/unit/wire/samples.h"
#include "wire/ethernet.h"
#include "wire/packet.h"

namespace uroce::wire {

inline constexpr Opcode kPlain[] = {
    Opcode::rc_send_first,         Opcode::rc_send_middle,         Opcode::rc_send_last,
    Opcode::rc_send_only,          Opcode::rc_write_first,         Opcode::rc_write_middle,
    Opcode::rc_write_last,         Opcode::rc_write_only,          Opcode::ud_send_only,
    Opcode::rc_read_request,       Opcode::rc_read_response_first, Opcode::rc_read_response_middle,
    Opcode::rc_read_response_last, Opcode::rc_read_response_only,  Opcode::rc_ack,
    Opcode::rc_compare_swap,       Opcode::rc_fetch_add,           Opcode::rc_atomic_ack,
};

inline void mend_ipv4_checksum(test::Bytes& frame) {
  std::byte* ip = frame.data() + kEthernetBytes;
  std::memset(ip + 10, 0, 2);
  const auto checksum = static_cast<uint16_t>(~fold(ipv4_sum(ip)));
  std::memcpy(ip + 10, &checksum, sizeof checksum);
}

inline auto below_extended(const Packet& p) {
  return std::tuple(p.frame, p.l3_offset, p.bth_offset, p.ip_version, p.ecn, p.hop_limit, p.icrc, p.vlan, p.udp_source,
                    p.imm, p.payload.data(), p.payload.size());
}
inline auto bth_of(const Packet& p) {
  const Bth& h = p.bth;
  return std::tuple(h.opcode, h.solicited, h.migrated, h.pad, h.version, h.pkey, h.fecn, h.becn, h.reserved6,
                    h.dest_qpn, h.ack_request, h.reserved7, h.psn);
}
inline auto extended(const Packet& p) {
  const OpFlags has = p.op().flags;
  const Reth reth = has.has(Op::reth) ? p.reth : Reth{};
  const Aeth aeth = has.has(Op::aeth) ? p.aeth : Aeth{};
  const AtomicEth atomic = has.has(Op::atomic_eth) ? p.atomic : AtomicEth{};
  const Deth deth = has.has(Op::deth) ? p.deth : Deth{};
  return std::tuple(reth.va, reth.rkey, reth.length, aeth.syndrome, aeth.msn, atomic.va, atomic.rkey, atomic.swap_add,
                    atomic.compare, has.has(Op::atomic_ack_eth) ? p.atomic_ack : 0, deth.qkey, deth.reserved,
                    deth.src_qpn);
}
/// The frame's beginning, length and headers; extended headers as far as the opcode has them.
inline void expect_same(const Packet& one, const Packet& other) {
  EXPECT_EQ(below_extended(one), below_extended(other));
  EXPECT_EQ(bth_of(one), bth_of(other));
  EXPECT_EQ(extended(one), extended(other));
}

}  // namespace uroce::wire
