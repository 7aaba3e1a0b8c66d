#include "wire/opcode.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/wire/samples.h"

namespace uroce::wire {
namespace {

TEST(Opcode, TableHoldsEveryRcUcUdXrcOperationTheCnpAndOurOwn) {
  std::array<int, 8> count{};
  for (const Opcode opcode : test::defined_opcodes()) ++count[static_cast<std::size_t>(transport_of(opcode))];
  EXPECT_EQ(count, (std::array<int, 8>{25, 12, 0, 2, 1, 25, 2, 0}));
}

TEST(Opcode, NamesAreUniqueWithinATransport) {
  std::set<std::pair<Transport, std::string>> names;
  for (const Opcode opcode : test::defined_opcodes()) {
    EXPECT_TRUE(names.emplace(transport_of(opcode), info(opcode).name).second) << info(opcode).name;
  }
}

TEST(Opcode, UcIsTheRcTableWithoutResponses) {
  for (uint8_t i = 0x20; i <= 0x2b; ++i) {
    const OpcodeInfo& uc = kOpcodes[i];
    const OpcodeInfo& rc = kOpcodes[i - 0x20u];
    EXPECT_STREQ(uc.name, rc.name);
    EXPECT_EQ(uc.flags, rc.flags);
    EXPECT_EQ(uc.header_length, rc.header_length);
  }
}

TEST(Opcode, XrcIsTheRcTableWithAnSrqNumberInEachRequest) {
  for (uint8_t i = 0xa0; i <= 0xbd; ++i) {
    const OpcodeInfo& xrc = kOpcodes[i];
    const OpcodeInfo& rc = kOpcodes[i - 0xa0u];
    EXPECT_STREQ(xrc.name, rc.name);
    const bool request = rc.flags.has(Op::request);
    EXPECT_EQ(xrc.flags, request ? rc.flags | Op::xrceth : rc.flags);
    EXPECT_EQ(xrc.header_length, rc.header_length + (request ? 4 : 0));
  }
}

TEST(Opcode, FlagsSayWhichSideHandlesIt) {
  EXPECT_TRUE(info(Opcode::rc_read_request).flags.has_all(Op::request | Op::read | Op::reth));
  EXPECT_FALSE(info(Opcode::rc_read_request).flags.has(Op::payload));
  EXPECT_FALSE(info(Opcode::rc_read_response_only).flags.has(Op::request));
  EXPECT_FALSE(info(Opcode::rc_read_response_middle).flags.has(Op::aeth));
  EXPECT_FALSE(info(Opcode::rc_ack).flags.has(Op::request));
  EXPECT_TRUE(info(Opcode::rc_write_only_imm).flags.has(Op::takes_recv));
  EXPECT_FALSE(info(Opcode::rc_write_only).flags.has(Op::takes_recv));
  EXPECT_TRUE(info(Opcode::rc_placement_flush).flags.has_all(Op::request | Op::feth | Op::reth));
  EXPECT_FALSE(info(Opcode::rc_placement_flush).flags.has(Op::payload));
  EXPECT_TRUE(info(Opcode::rc_atomic_write).flags.has_all(Op::request | Op::payload | Op::reth));
  EXPECT_FALSE(info(Opcode::rc_atomic_write).flags.has_any(Op::write | Op::atomic)) << "neither may be taken for it";
}

TEST(Opcode, ReservedAndOtherManufacturersAreUndefined) {
  for (const uint32_t i : {0x15u, 0x18u, 0x1bu, 0x1eu, 0x1fu, 0x2cu, 0x3cu, 0x40u, 0x60u, 0x80u, 0x82u, 0xb5u, 0xb8u,
                           0xbbu, 0xbeu, 0xc2u, 0xdfu, 0xffu}) {
    EXPECT_EQ(kOpcodes[i].name, nullptr) << i;
    EXPECT_EQ(kOpcodes[i].header_length, 0) << i;
  }
}

}  // namespace
}  // namespace uroce::wire
