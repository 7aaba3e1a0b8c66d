#include "ping/bucket.h"

#include <gtest/gtest.h>

namespace uroce::ping {
namespace {

using namespace std::chrono_literals;

constexpr Bucket::Time kStart{1h};

int taken(Bucket& bucket, Bucket::Time now) {
  int n = 0;
  while (bucket.take(now)) ++n;
  return n;
}

TEST(Bucket, GivesItsRate) {
  Bucket bucket(10, kStart);
  EXPECT_EQ(taken(bucket, kStart), 10) << "a burst";
  EXPECT_FALSE(bucket.has(kStart + 99ms));
  EXPECT_TRUE(bucket.has(kStart + 101ms)) << "looking takes nothing";
  EXPECT_EQ(taken(bucket, kStart + 101ms), 1);
  int sum = 0;
  for (auto at = 101ms; at <= 10101ms; at += 7ms) sum += taken(bucket, kStart + at);
  EXPECT_NEAR(sum, 100, 1);
}

TEST(Bucket, SavesNoMoreThanABurst) {
  Bucket bucket(5, kStart);
  EXPECT_EQ(taken(bucket, kStart + 24h), 5);
}

}  // namespace
}  // namespace uroce::ping
