#include "transport/core/block_pool.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(BlockPool, OneUserLeavesAFifthToOthers) {
  BlockPool pool(10, 64);
  std::vector<std::byte*> taken;
  while (std::byte* block = pool.take(1)) taken.push_back(block);
  EXPECT_EQ(taken.size(), 8u);
  std::byte* const other = pool.take(2);
  ASSERT_NE(other, nullptr);
  for (std::byte* block : taken) EXPECT_NE(block, other);
  pool.give_back(other, 2);
  for (std::byte* block : taken) pool.give_back(block, 1);
  EXPECT_EQ(pool.free(), 10u);
}

TEST(BlockPool, TheNewestBlockGoesFirst) {
  BlockPool pool(4, 64);
  std::byte* const one = pool.take(0);
  std::byte* const two = pool.take(0);
  EXPECT_EQ(two - one, 64);
  pool.give_back(one, 0);
  EXPECT_EQ(pool.take(0), one);
}

TEST(BlockPool, IsScarceBelowHalf) {
  BlockPool pool(4, 64);
  for (int i = 0; i < 2; ++i) pool.take(0);
  EXPECT_FALSE(pool.scarce());
  pool.take(0);
  EXPECT_TRUE(pool.scarce());
}

TEST(BlockPool, MayBeEmpty) { EXPECT_EQ(BlockPool(0, 64).take(0), nullptr); }

}  // namespace
}  // namespace uroce::transport
