#include "faults/match.h"

#include <gtest/gtest.h>

#include "faults/language.h"
#include "tests/unit/faults/frames.h"

namespace uroce::faults {
namespace {

using test::Bytes;
using test::frame;

bool chosen(std::string_view words, const Bytes& bytes, Way way = Way::rx) {
  const auto rule = parse_rule("drop " + std::string(words));
  EXPECT_TRUE(rule) << words;
  const auto packet = wire::parse(bytes);
  EXPECT_TRUE(packet);
  return chooses(*rule, way, *packet);
}

const Bytes kSend = frame("RC SEND_ONLY qp=0x12 psn=100 payload=64");

TEST(FaultMatch, ByDirection) {
  EXPECT_TRUE(chosen("", kSend, Way::rx));
  EXPECT_TRUE(chosen("both", kSend, Way::tx));
  EXPECT_TRUE(chosen("rx", kSend, Way::rx));
  EXPECT_FALSE(chosen("rx", kSend, Way::tx));
  EXPECT_FALSE(chosen("tx", kSend, Way::rx));
  EXPECT_TRUE(chosen("tx", kSend, Way::loopback));
  EXPECT_TRUE(chosen("rx", kSend, Way::loopback));
}

TEST(FaultMatch, ByQueuePairPsnAndSize) {
  EXPECT_TRUE(chosen("qpn=0x12", kSend));
  EXPECT_FALSE(chosen("qpn=0x13", kSend));
  EXPECT_TRUE(chosen("psn=100", kSend));
  EXPECT_FALSE(chosen("psn=99", kSend));
  EXPECT_TRUE(chosen("psn=90-110", kSend));
  EXPECT_FALSE(chosen("psn=101-110", kSend));
  EXPECT_TRUE(chosen("psn=0xffff00-100", kSend));
  EXPECT_FALSE(chosen("psn=0xffff00-99", kSend));
  EXPECT_TRUE(chosen("size=64", kSend));
  EXPECT_FALSE(chosen("size=0-63", kSend));
  EXPECT_TRUE(chosen("size=0", frame("RC ACK qp=0x12 psn=1")));
}

TEST(FaultMatch, ByTheOtherSidesAddress) {
  EXPECT_TRUE(chosen("peer=192.0.2.2", kSend, Way::rx));
  EXPECT_FALSE(chosen("peer=192.0.2.1", kSend, Way::rx));
  EXPECT_TRUE(chosen("peer=192.0.2.1", kSend, Way::tx));
  EXPECT_FALSE(chosen("peer=192.0.2.2", kSend, Way::tx));
  EXPECT_TRUE(chosen("peer=10.0.0.1,192.0.2.0/24", kSend));
  const auto ipv6 = [](uint8_t last) { return Gid{{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}; };
  const Bytes send = frame("RC SEND_ONLY qp=0x12 psn=100 payload=64", test::route_between(ipv6(2), ipv6(1)));
  EXPECT_TRUE(chosen("peer=2001:db8::2", send));
  EXPECT_FALSE(chosen("peer=2001:db8::1", send));
}

TEST(FaultMatch, ByOpcodeAndKindOfAck) {
  EXPECT_TRUE(chosen("opcode=send_only", kSend));
  EXPECT_FALSE(chosen("opcode=uc_send_only", kSend));
  const Bytes ack = frame("RC ACK qp=0x12 psn=1"), nak = frame("RC NAK qp=0x12 psn=1"),
              rnr = frame("RC RNR qp=0x12 psn=1 syndrome=rnr");
  EXPECT_TRUE(chosen("opcode=nak", nak));
  EXPECT_FALSE(chosen("opcode=nak", ack));
  EXPECT_FALSE(chosen("opcode=nak", rnr));
  EXPECT_TRUE(chosen("opcode=rnr", rnr));
  EXPECT_TRUE(chosen("opcode=ack", nak));
  EXPECT_FALSE(chosen("opcode=nak", kSend));
}

}  // namespace
}  // namespace uroce::faults
