#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

#include "base/random.h"
#include "tests/unit/wire/samples.h"
#include "wire/ethernet.h"
#include "wire/plain_packet.h"

namespace uroce::wire {
namespace {

using test::Bytes;

/// A packet of another kind, whose headers must not show in the next one.
Packet used_packet() {
  Packet packet = test::sample_packet(Opcode::rc_write_only_imm);
  packet.vlan = 7;
  packet.bth_offset = 66;
  return packet;
}

auto below_extended(const Packet& p) {
  return std::tuple(p.frame, p.l3_offset, p.bth_offset, p.ip_version, p.ecn, p.hop_limit, p.icrc, p.vlan, p.udp_source,
                    p.imm, p.payload.data(), p.payload.size());
}
auto bth_of(const Packet& p) {
  const Bth& h = p.bth;
  return std::tuple(h.opcode, h.solicited, h.migrated, h.pad, h.version, h.pkey, h.fecn, h.becn, h.reserved6,
                    h.dest_qpn, h.ack_request, h.reserved7, h.psn);
}
auto extended(const Packet& p) {
  const OpFlags has = p.op().flags;
  const Reth reth = has.has(Op::reth) ? p.reth : Reth{};
  const Aeth aeth = has.has(Op::aeth) ? p.aeth : Aeth{};
  const AtomicEth atomic = has.has(Op::atomic_eth) ? p.atomic : AtomicEth{};
  const Deth deth = has.has(Op::deth) ? p.deth : Deth{};
  return std::tuple(reth.va, reth.rkey, reth.length, aeth.syndrome, aeth.msn, atomic.va, atomic.rkey, atomic.swap_add,
                    atomic.compare, has.has(Op::atomic_ack_eth) ? p.atomic_ack : 0, deth.qkey, deth.reserved,
                    deth.src_qpn);
}

/// True when the frame is plain. A plain packet must be the one that parse() gives.
bool is_plain(const Bytes& frame, Icrc icrc = Icrc::check) {
  Packet plain = used_packet();
  if (!parse_plain(frame, icrc, plain) && !parse_plain_datagram(frame, icrc, plain)) return false;
  Packet whole = used_packet();
  EXPECT_EQ(parse(frame, icrc, whole), Drop::none);
  EXPECT_EQ(below_extended(plain), below_extended(whole));
  EXPECT_EQ(bth_of(plain), bth_of(whole));
  EXPECT_EQ(extended(plain), extended(whole));
  return true;
}

Bytes write_of(const Route& route, std::size_t payload) {
  return test::frame_of(test::sample_packet(Opcode::rc_write_only), route, test::sample_payload(payload));
}

void mend_ipv4_checksum(Bytes& frame) {
  std::byte* ip = frame.data() + kEthernetBytes;
  std::memset(ip + 10, 0, 2);
  const auto checksum = static_cast<uint16_t>(~fold(ipv4_sum(ip)));
  std::memcpy(ip + 10, &checksum, sizeof checksum);
}

constexpr Opcode kPlain[] = {
    Opcode::rc_send_first,         Opcode::rc_send_middle,         Opcode::rc_send_last,
    Opcode::rc_send_only,          Opcode::rc_write_first,         Opcode::rc_write_middle,
    Opcode::rc_write_last,         Opcode::rc_write_only,          Opcode::ud_send_only,
    Opcode::rc_read_request,       Opcode::rc_read_response_first, Opcode::rc_read_response_middle,
    Opcode::rc_read_response_last, Opcode::rc_read_response_only,  Opcode::rc_ack,
    Opcode::rc_compare_swap,       Opcode::rc_fetch_add,           Opcode::rc_atomic_ack,
};

TEST(PlainPacket, PacketsOfTheseOpcodesWithoutATagArePlain) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const bool kind = std::ranges::find(kPlain, opcode) != std::end(kPlain);
      EXPECT_EQ(is_plain(test::sample_frame(opcode, route)), kind && !route.vlan) << info(opcode).name;
    }
  }
}

TEST(PlainPacket, TakesEveryLengthOfPayloadAndEthernetPadding) {
  for (const Route& route : {test::sample_routes()[0], test::sample_routes()[1]}) {
    for (const std::size_t length : {0, 1, 2, 3, 4, 8, 1023, 4096}) {
      Bytes frame = write_of(route, length);
      EXPECT_TRUE(is_plain(frame)) << length;
      frame.resize(frame.size() + 9);
      EXPECT_TRUE(is_plain(frame)) << length;
    }
  }
}

TEST(PlainPacket, TakesEveryLengthOfAReadResponse) {
  const Packet sample = test::sample_packet(Opcode::rc_read_response_only);
  for (const std::size_t length : {0, 1, 2, 3, 4, 4096}) {
    EXPECT_TRUE(is_plain(test::frame_of(sample, test::sample_routes()[0], test::sample_payload(length)))) << length;
  }
}

TEST(PlainPacket, RefusesAWrongIcrc) {
  Bytes frame = write_of(test::sample_routes()[0], 8);
  frame.back() ^= std::byte{1};
  EXPECT_FALSE(is_plain(frame));
  EXPECT_TRUE(is_plain(frame, Icrc::skip));
}

TEST(PlainPacket, RefusesEveryCutFrame) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : kPlain) {
      const Bytes whole = test::sample_frame(opcode, route);
      for (std::size_t n = 0; n < whole.size(); ++n) {
        EXPECT_FALSE(is_plain(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)), Icrc::skip)) << n;
      }
    }
  }
}

// Each byte of the headers takes each value. Where IPv4's checksum covers it, once with the right one.
TEST(PlainPacket, AgreesWithTheParserAboutEveryByte) {
  uint32_t plain = 0;
  for (const Route& route : {test::sample_routes()[0], test::sample_routes()[1]}) {
    for (const Opcode opcode : kPlain) {
      const Bytes whole = test::sample_frame(opcode, route);
      for (std::size_t at = 0; at < whole.size(); ++at) {
        for (uint32_t value = 0; value < 256; ++value) {
          Bytes frame = whole;
          frame[at] = static_cast<std::byte>(value);
          plain += is_plain(frame, Icrc::skip) ? 1 : 0;
          if (!route.dgid.is_ipv4()) continue;
          mend_ipv4_checksum(frame);
          plain += is_plain(frame, Icrc::skip) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(plain, 10'000u);
}

TEST(PlainPacket, AgreesWithTheParserAboutRandomHeaders) {
  Random random(7);
  uint32_t plain = 0;
  for (int i = 0; i < 200'000; ++i) {
    const Route route = test::sample_routes()[random.below(4)];
    Bytes frame = test::sample_frame(kPlain[random.below(std::size(kPlain))], route);
    for (uint64_t changes = random.below(4); changes > 0; --changes) {
      frame[12 + random.below(frame.size() - 12)] = static_cast<std::byte>(random.below(256));
    }
    // A short total length with the UDP length that fits it.
    if (route.dgid.is_ipv4() && !route.vlan && random.below(2) == 0) {
      const auto total = static_cast<uint16_t>(random.below(frame.size() + 8));
      store_be16(frame.data() + 16, total);
      store_be16(frame.data() + 38, static_cast<uint16_t>(total - kIpv4Bytes));
      mend_ipv4_checksum(frame);
    }
    plain += is_plain(frame, Icrc::skip) ? 1 : 0;
  }
  EXPECT_GT(plain, 10'000u);
}

TEST(PlainPacket, LeavesIpv4MappedAddressesToTheParser) {
  Route route = test::sample_routes()[1];
  Bytes frame = write_of(route, 8);
  Gid mapped = Gid::from_ipv4(0x0a000001);
  for (const std::size_t at : {22, 38}) {
    Bytes wrong = frame;
    std::memcpy(wrong.data() + at, mapped.bytes.data(), mapped.bytes.size());
    EXPECT_FALSE(is_plain(wrong, Icrc::skip));
    EXPECT_EQ(test::drop_of(wrong, Icrc::skip), Drop::ip_header_invalid);
  }
}

}  // namespace
}  // namespace uroce::wire
