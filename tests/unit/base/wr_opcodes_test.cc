#include "base/wr_opcodes.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(WrOpcodes, EachQpTypeOffersItsOwn) {
  // Opcode:               write imm send imm read cas add inv bind send_inv  -  -  -  -  flush atomic_write
  constexpr int kRc[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1};
  constexpr int kUc[] = {1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  constexpr int kUd[] = {0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  constexpr int kRaw[] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < 16; ++i) {
    const auto opcode = static_cast<WrOpcode>(i);
    EXPECT_EQ(offers(QpType::raw_packet, opcode), kRaw[i] != 0) << i;
    EXPECT_EQ(offers(QpType::rc, opcode), kRc[i] != 0) << i;
    EXPECT_EQ(offers(QpType::uc, opcode), kUc[i] != 0) << i;
    EXPECT_EQ(offers(QpType::ud, opcode), kUd[i] != 0) << i;
    EXPECT_EQ(offers(QpType::xrc_initiator, opcode), kRc[i] != 0) << i;
    EXPECT_FALSE(offers(QpType::xrc_target, opcode)) << i;
  }
}

TEST(WrOpcodes, NoTypeOffersAnUndefinedOpcode) {
  for (int i = 16; i < 256; ++i) {
    for (const QpType type : {QpType::rc, QpType::uc, QpType::ud, QpType::raw_packet}) {
      EXPECT_FALSE(offers(type, static_cast<WrOpcode>(i)));
    }
  }
}

TEST(WrOpcodes, KindsOfOperations) {
  for (int i = 0; i < 16; ++i) {
    const auto opcode = static_cast<WrOpcode>(i);
    EXPECT_EQ(is_local(opcode), opcode == WrOpcode::local_invalidate || opcode == WrOpcode::bind_mw) << i;
    EXPECT_EQ(is_atomic(opcode), opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add) << i;
    EXPECT_EQ(is_read_or_atomic(opcode), opcode == WrOpcode::rdma_read || is_atomic(opcode)) << i;
    EXPECT_EQ(is_placement(opcode), opcode == WrOpcode::flush || opcode == WrOpcode::atomic_write) << i;
    EXPECT_EQ(has_response(opcode), is_read_or_atomic(opcode) || is_placement(opcode)) << i;
  }
}

TEST(WrOpcodes, SixQpTypesAreKnown) {
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(is_known(static_cast<QpType>(i)), (i >= 2 && i <= 4) || (i >= 8 && i <= 10)) << i;
}

}  // namespace
}  // namespace uroce
