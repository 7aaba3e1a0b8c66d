#include "transport/core/frame_holders.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace uroce::transport {
namespace {

FrameHolder holder(uint16_t user, uint32_t peer) { return {.user = user, .peer = Gid::from_ipv4(peer)}; }

TEST(FrameHolders, CountsEachUserWithEachPeer) {
  FrameHolders holders(4, 1);
  const uint16_t number = holders.add(holder(1, 1));
  EXPECT_EQ(holders.add(holder(1, 1)), number);
  holders.add(holder(1, 2));
  holders.add(holder(2, 1));
  EXPECT_EQ(holders.held_by(holder(1, 1)), 2u);
  EXPECT_EQ(holders.held_by(holder(1, 2)), 1u);
  EXPECT_EQ(holders.held_by(holder(2, 1)), 1u);
  EXPECT_EQ(holders.held_by(holder(2, 2)), 0u);
  EXPECT_EQ(holders.remove(number), 1u);
  EXPECT_EQ(holders.remove(number), 1u);
  EXPECT_EQ(holders.held_by(holder(1, 1)), 0u);
}

TEST(FrameHolders, ForgetsThoseThatHoldNothing) {
  FrameHolders holders(2, 1);
  for (uint32_t peer = 0; peer < 1000; ++peer) {
    const uint16_t one = holders.add(holder(1, peer));
    const uint16_t other = holders.add(holder(1, peer + 1));
    EXPECT_EQ(holders.held_by(holder(1, peer)), 1u);
    holders.remove(one);
    holders.remove(other);
  }
}

// As a map would count, whatever shares a bucket.
TEST(FrameHolders, CountsRightAtRandom) {
  constexpr uint32_t kFrames = 64;
  FrameHolders holders(kFrames, 3);
  Random random(5);
  std::map<uint32_t, uint32_t> expected;
  std::vector<std::pair<uint16_t, uint32_t>> held;  // numbers and peers
  for (int i = 0; i < 10'000; ++i) {
    if (held.size() < kFrames && random.chance(0.55)) {
      const auto peer = static_cast<uint32_t>(random.below(100));
      held.emplace_back(holders.add(holder(static_cast<uint16_t>(peer % 3), peer)), peer);
      ++expected[peer];
    } else if (!held.empty()) {
      std::swap(held[random.below(held.size())], held.back());
      const auto [number, peer] = held.back();
      held.pop_back();
      EXPECT_EQ(holders.remove(number), peer % 3);
      --expected[peer];
    }
    const auto any = static_cast<uint32_t>(random.below(100));
    ASSERT_EQ(holders.held_by(holder(static_cast<uint16_t>(any % 3), any)), expected[any]);
  }
}

}  // namespace
}  // namespace uroce::transport
