#include "transport/core/frame_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace uroce::transport {
namespace {

std::vector<std::byte> filled(std::size_t bytes, uint8_t value) {
  return std::vector<std::byte>(bytes, std::byte{value});
}

TEST(FramePool, GivesBackWhatItKept) {
  FramePool pool(2);
  const uint16_t a = pool.keep(filled(100, 1));
  const uint16_t b = pool.keep(filled(FramePool::kFrameBytes, 2));
  ASSERT_NE(a, 0);
  ASSERT_NE(b, 0);
  EXPECT_EQ(pool.used(), 2u);
  EXPECT_TRUE(std::ranges::equal(pool.frame(a), filled(100, 1)));
  EXPECT_TRUE(std::ranges::equal(pool.frame(b), filled(FramePool::kFrameBytes, 2)));
}

TEST(FramePool, IsFullAndThenNotAnyMore) {
  FramePool pool(1);
  const uint16_t a = pool.keep(filled(60, 1));
  EXPECT_EQ(pool.keep(filled(60, 2)), 0);
  pool.release(a);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.keep(filled(60, 2)), a);
}

TEST(FramePool, RefusesWhatIsTooLong) {
  FramePool pool(1);
  EXPECT_EQ(pool.keep(filled(FramePool::kFrameBytes + 1, 1)), 0);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(FramePool, MayHaveNoRoomAtAll) {
  FramePool pool(0);
  EXPECT_EQ(pool.keep(filled(60, 1)), 0);
}

}  // namespace
}  // namespace uroce::transport
