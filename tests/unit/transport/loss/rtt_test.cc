#include "transport/loss/rtt.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(RttEstimator, BeginsWithTheFirstSample) {
  RttEstimator rtt;
  EXPECT_FALSE(rtt.known());
  rtt.sample(Nanos(8'000));
  EXPECT_TRUE(rtt.known());
  EXPECT_EQ(rtt.smoothed(), Nanos(8'000));
  EXPECT_EQ(rtt.variation(), Nanos(4'000));
}

TEST(RttEstimator, SmoothsAsRfc6298Says) {
  RttEstimator rtt;
  rtt.sample(Nanos(8'000));
  rtt.sample(Nanos(16'000));
  EXPECT_EQ(rtt.variation(), Nanos(5'000));  // 4000 + (8000 - 4000) / 4
  EXPECT_EQ(rtt.smoothed(), Nanos(9'000));   // 8000 + (16000 - 8000) / 8
}

TEST(RttEstimator, TakesWhatIsNotPositiveForTheLeast) {
  RttEstimator rtt;
  rtt.sample(Nanos(-100));
  EXPECT_TRUE(rtt.known());
  EXPECT_EQ(rtt.smoothed(), Nanos(1));
}

TEST(RttEstimator, AssumesAMillisecondAtFirst) {
  RttEstimator rtt;
  EXPECT_EQ(rtt.smoothed(), Nanos(0));
  EXPECT_EQ(rtt.smoothed_or_assumed(), std::chrono::milliseconds(1));
  rtt.sample(Nanos(500));
  EXPECT_EQ(rtt.smoothed_or_assumed(), Nanos(500));
}

}  // namespace
}  // namespace uroce::transport
