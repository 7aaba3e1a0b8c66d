#include "base/random.h"

#include <gtest/gtest.h>

#include <array>

namespace uroce {
namespace {

TEST(Random, IsSplitMix64) {
  // The published sequence for seed 1234567.
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, BelowStaysBelowAndReachesEveryValue) {
  Random random(1);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) ++seen.at(random.below(seen.size()));
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, ChanceKeepsItsProbability) {
  Random random(2);
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(random.chance(0.0));
    EXPECT_TRUE(random.chance(1.0));
    hits += random.chance(0.25) ? 1 : 0;
  }
  EXPECT_NEAR(hits, 2500, 200);
}

}  // namespace
}  // namespace uroce
