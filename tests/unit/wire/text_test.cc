#include "tests/support/packet_text.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/wire/samples.h"

namespace uroce::wire {
namespace {

using test::Bytes;

/// The line in canonical form, or the error's text.
std::string canonical(std::string_view line) {
  const auto text = test::from_text(line);
  return text ? to_text(*text) : text.error().text;
}

TEST(Text, LinesReadAsPeopleExpect) {
  const Route route = test::sample_routes()[2];
  const auto text = [&](Opcode opcode, bool addresses = false) {
    const Bytes frame = test::sample_frame(opcode, route);
    return to_text(*parse(frame), addresses);
  };
  EXPECT_EQ(text(Opcode::rc_write_only_imm),
            "RC WRITE_ONLY_IMM qp=0x123456 psn=16702650 pkey=0x8001 se ack_req va=0x1122334455667788 rkey=0x99aabbcc "
            "len=14544639 imm=0x5eedc0de payload=11");
  EXPECT_EQ(text(Opcode::rc_ack),
            "RC ACK qp=0x123456 psn=16702650 pkey=0x8001 se ack_req syndrome=ack credits=17 msn=11259375");
  EXPECT_EQ(text(Opcode::rc_placement_flush),
            "RC FLUSH qp=0x123456 psn=16702650 pkey=0x8001 se ack_req plt=0x9 sel=3 feth_rsv=0x2345678 "
            "va=0x1122334455667788 rkey=0x99aabbcc len=14544639");
  EXPECT_EQ(text(as(Transport::xrc, Opcode::rc_send_only_imm)),
            "XRC SEND_ONLY_IMM qp=0x123456 psn=16702650 pkey=0x8001 se ack_req srq=0x765432 imm=0x5eedc0de payload=11");
  EXPECT_EQ(canonical("XRC NAK psn=1 msn=2"), canonical("XRC ACK psn=1 syndrome=nak msn=2"));
  EXPECT_EQ(text(Opcode::cnp, true),
            "02:00:00:00:00:01>02:00:00:00:00:02 vlan=0x6005 192.0.2.1>192.0.2.2 udp=49152 CNP qp=0x123456 "
            "psn=16702650 pkey=0x8001 se becn ack_req");
}

TEST(Text, Ipv6AddressesAndUnknownOpcodes) {
  const Bytes frame = test::sample_frame(Opcode::ud_send_only, test::sample_routes()[1]);
  EXPECT_EQ(to_text(*parse(frame), true),
            "02:00:00:00:00:01>02:00:00:00:00:02 2001:db8:0:0:0:0:0:1>2001:db8:0:0:0:0:0:2 udp=49152 UD SEND_ONLY "
            "qp=0x123456 psn=16702650 pkey=0x8001 se ack_req qkey=0x80010000 src_qp=0x654321 payload=11");
  Packet unknown;
  unknown.bth.opcode = static_cast<Opcode>(0xc2);
  EXPECT_EQ(to_text(unknown, true), "OPCODE_c2 qp=0x0 psn=0");
}

TEST(Text, EveryOperationComesBackAsAFrame) {
  const Route route = test::sample_routes()[0];
  for (const Opcode opcode : test::defined_opcodes()) {
    const Bytes frame = test::sample_frame(opcode, route);
    const std::string line = to_text(*parse(frame));
    const auto text = test::from_text(line);
    ASSERT_TRUE(text) << text.error().text;
    EXPECT_EQ(to_text(*text), line);
    EXPECT_EQ(test::frame_of(text->packet, route, test::sample_payload(text->payload_length)), frame) << line;
  }
}

TEST(Text, EverySyndromeAndReservedBitComesBack) {
  const Route route = test::sample_routes()[0];
  for (uint32_t i = 0; i < 256; ++i) {
    Packet packet = test::sample_packet(Opcode::rc_ack);
    packet.aeth.syndrome = static_cast<uint8_t>(i);
    packet.bth.reserved6 = i & 0x3f;
    packet.bth.reserved7 = i & 0x7f;
    packet.bth.migrated = (i & 1) != 0;
    packet.bth.fecn = (i & 2) != 0;
    packet.bth.becn = (i & 4) != 0;
    const auto text = test::from_text(to_text(packet));
    ASSERT_TRUE(text) << text.error().text;
    EXPECT_EQ(test::frame_of(text->packet, route, {}), test::frame_of(packet, route, {})) << to_text(packet);
  }
  Packet add = test::sample_packet(Opcode::rc_fetch_add);
  EXPECT_EQ(canonical(to_text(add)), to_text(add)) << "a compare value that FETCH_ADD ignores";
  Packet ud = test::sample_packet(Opcode::ud_send_only);
  ud.deth.reserved = 0x9c;
  EXPECT_EQ(canonical(to_text(ud)), to_text(ud));
  Packet xrc = test::sample_packet(as(Transport::xrc, Opcode::rc_send_only));
  xrc.xrceth.reserved = 0x9c;
  EXPECT_EQ(canonical(to_text(xrc)), to_text(xrc));
}

TEST(Text, CapturedFramesComeBack) {
  for (const Bytes& frame : test::read_pcap(std::string(UROCE_TEST_DATA) + "/rxe_6.1.pcap")) {
    const auto packet = parse(frame);
    if (!packet) continue;
    const std::string line = to_text(*packet);
    EXPECT_EQ(canonical(line), line);
  }
}

TEST(Text, ShortFormsAndDefaults) {
  EXPECT_EQ(canonical("WRITE_FIRST psn=5 len=1024"), "RC WRITE_FIRST qp=0x0 psn=5 va=0x0 rkey=0x0 len=1024 payload=0");
  EXPECT_EQ(canonical("  ACK\tpsn=4\n"), "RC ACK qp=0x0 psn=4 syndrome=ack credits=31 msn=0");
  EXPECT_EQ(canonical("ACK syndrome=ack psn=4 credits=3"), "RC ACK qp=0x0 psn=4 syndrome=ack credits=3 msn=0");
  EXPECT_EQ(canonical("NAK psn=4"), "RC ACK qp=0x0 psn=4 syndrome=nak code=psn_sequence msn=0");
  EXPECT_EQ(canonical("NAK code=remote_access"), "RC ACK qp=0x0 psn=0 syndrome=nak code=remote_access msn=0");
  EXPECT_EQ(canonical("NAK code=9"), "RC ACK qp=0x0 psn=0 syndrome=nak code=9 msn=0");
  EXPECT_EQ(canonical("RNR timer=12 msn=7"), "RC ACK qp=0x0 psn=0 syndrome=rnr timer=12 msn=7");
  EXPECT_EQ(canonical("ACK syndrome=0x45"), "RC ACK qp=0x0 psn=0 syndrome=0x45 msn=0");
  EXPECT_EQ(canonical("READ_RESPONSE_ONLY payload=8"),
            "RC READ_RESPONSE_ONLY qp=0x0 psn=0 syndrome=ack credits=31 msn=0 payload=8");
  EXPECT_EQ(canonical("FLUSH plt=1 len=64"), "RC FLUSH qp=0x0 psn=0 plt=0x1 sel=0 va=0x0 rkey=0x0 len=64");
  EXPECT_EQ(canonical("ATOMIC_WRITE len=8 payload=8"), "RC ATOMIC_WRITE qp=0x0 psn=0 va=0x0 rkey=0x0 len=8 payload=8");
  EXPECT_EQ(canonical("UC SEND_ONLY"), "UC SEND_ONLY qp=0x0 psn=0 payload=0");
  EXPECT_EQ(canonical("CNP becn"), "CNP qp=0x0 psn=0 becn");
}

TEST(Text, ErrorsNameTheWord) {
  const auto complaint = [](std::string_view line) {
    const auto text = test::from_text(line);
    if (text) return std::string("taken");
    EXPECT_EQ(text.error().code, EINVAL);
    const std::string& t = text.error().text;
    const std::string prefix = "packet text '" + std::string(line) + "': ";
    EXPECT_TRUE(t.starts_with(prefix)) << t;
    return t.substr(prefix.size(), t.find(';') - prefix.size());
  };
  EXPECT_EQ(complaint(""), "the operation is missing");
  EXPECT_EQ(complaint("RC"), "the operation is missing");
  EXPECT_EQ(complaint("RC SEND"), "unknown operation 'RC SEND'");
  EXPECT_EQ(complaint("UD WRITE_ONLY"), "unknown operation 'UD WRITE_ONLY'");
  EXPECT_EQ(complaint("RC CNP psn=1 len=2"), "CNP has no field 'len'");
  EXPECT_EQ(complaint("UC NAK"), "unknown operation 'UC NAK'");
  EXPECT_EQ(complaint("SEND_ONLY va=1"), "SEND_ONLY has no field 'va'");
  EXPECT_EQ(complaint("ACK payload=4"), "ACK has no field 'payload'");
  EXPECT_EQ(complaint("SEND_ONLY psn=0x1000000"), "psn=0x1000000 does not fit in 24 bits");
  EXPECT_EQ(complaint("SEND_ONLY psn="), "psn= is not a number");
  EXPECT_EQ(complaint("SEND_ONLY psn=-1"), "psn=-1 is not a number");
  EXPECT_EQ(complaint("SEND_ONLY psn=12x"), "psn=12x is not a number");
  EXPECT_EQ(complaint("SEND_ONLY imm"), "'imm' is neither a flag nor key=value");
  EXPECT_EQ(complaint("SEND_ONLY payload=65001"), "payload=65001 is longer than the limit of 65000");
  EXPECT_EQ(complaint("ACK timer=3"), "timer= does not fit this syndrome: write a matching syndrome= before it");
  EXPECT_EQ(complaint("NAK code=32"), "code=32 does not fit in 5 bits");
}

}  // namespace
}  // namespace uroce::wire
