#include "base/wr_opcodes.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(WrOpcodes, EachQpTypeOffersItsOwn) {
  // Opcode:                  write  imm  send  imm  read  cas  add  inv  bind  send_inv
  constexpr bool kRc[] = {true, true, true, true, true, true, true, true, true, true};
  constexpr bool kUc[] = {true, true, true, true, false, false, false, true, true, false};
  constexpr bool kUd[] = {false, false, true, true, false, false, false, false, false, false};
  for (int i = 0; i < 10; ++i) {
    const auto opcode = static_cast<WrOpcode>(i);
    EXPECT_EQ(offers(QpType::rc, opcode), kRc[i]) << i;
    EXPECT_EQ(offers(QpType::uc, opcode), kUc[i]) << i;
    EXPECT_EQ(offers(QpType::ud, opcode), kUd[i]) << i;
  }
}

TEST(WrOpcodes, NoTypeOffersAnUndefinedOpcode) {
  for (int i = 10; i < 256; ++i) {
    for (const QpType type : {QpType::rc, QpType::uc, QpType::ud}) EXPECT_FALSE(offers(type, static_cast<WrOpcode>(i)));
  }
}

TEST(WrOpcodes, KindsOfOperations) {
  for (int i = 0; i < 10; ++i) {
    const auto opcode = static_cast<WrOpcode>(i);
    EXPECT_EQ(is_local(opcode), opcode == WrOpcode::local_invalidate || opcode == WrOpcode::bind_mw) << i;
    EXPECT_EQ(is_atomic(opcode), opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add) << i;
    EXPECT_EQ(is_read_or_atomic(opcode), opcode == WrOpcode::rdma_read || is_atomic(opcode)) << i;
  }
}

TEST(WrOpcodes, ThreeQpTypesAreKnown) {
  for (int i = 0; i < 256; ++i) EXPECT_EQ(is_known(static_cast<QpType>(i)), i >= 2 && i <= 4) << i;
}

}  // namespace
}  // namespace uroce
