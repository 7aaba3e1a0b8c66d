#include "transport/engine/qp_table.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/bare_qp.h"

namespace uroce::transport {
namespace {

using test::BareQp;

TEST(QpTable, FindsByTheWholeNumber) {
  const EngineConfig config{.max_qps = 16};
  QpTable table(config);
  BareQp qp(5);
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_TRUE(table.add(*qp));
  EXPECT_EQ(table.find(5), &*qp);
  EXPECT_EQ(table.find(5 + 16), nullptr) << "the same slot, another number";
  EXPECT_EQ(table.find(kMulticastQpn), nullptr);
  EXPECT_TRUE(table.remove(*qp));
  EXPECT_FALSE(table.remove(*qp));
  EXPECT_EQ(table.find(5), nullptr);
}

TEST(QpTable, ASlotTakesOneQueuePair) {
  const EngineConfig config{.max_qps = 16};
  QpTable table(config);
  BareQp first(5), second(5 + 16), wide(0x1000005);
  EXPECT_TRUE(table.add(*first));
  EXPECT_FALSE(table.add(*first));
  EXPECT_FALSE(table.add(*second));
  EXPECT_FALSE(table.add(*wide)) << "a number has 24 bits";
  EXPECT_FALSE(table.remove(*second)) << "it is not in the slot";
  EXPECT_EQ(table.find(5), &*first);
  table.remove(*first);
  EXPECT_TRUE(table.add(*second));
}

TEST(QpTable, TheLowBitsNameTheEngine) {
  const EngineConfig config{.index = 2, .index_bits = 2, .max_qps = 16};
  QpTable table(config);
  BareQp ours(0b1110), next(0b10010), other(0b1111);
  EXPECT_TRUE(table.add(*ours));
  EXPECT_TRUE(table.add(*next)) << "neighbours have slots of their own";
  EXPECT_FALSE(table.add(*other));
  EXPECT_EQ(table.find(0b1110), &*ours);
  EXPECT_EQ(table.find(0b1111), nullptr);
}

TEST(QpTable, Qp1HasASlotOfItsOwn) {
  const EngineConfig config{.max_qps = 16};
  QpTable table(config);
  BareQp gsi(kGsiQpn, QpType::ud), alias(1 + 16);
  EXPECT_TRUE(table.add(*gsi));
  EXPECT_TRUE(table.add(*alias));
  EXPECT_EQ(table.find(kGsiQpn), &*gsi);
  EXPECT_EQ(table.find(17), &*alias);
}

}  // namespace
}  // namespace uroce::transport
