#include "transport/congestion/cnp.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

using std::chrono::microseconds;

constexpr Nanos at_us(int64_t us) { return microseconds(1000 + us); }

TEST(CnpLimiter, ReportsMarksOncePerInterval) {
  CnpLimiter cnp;
  EXPECT_TRUE(cnp.on_mark(at_us(0), 50));
  EXPECT_FALSE(cnp.on_mark(at_us(0), 50));
  EXPECT_FALSE(cnp.on_mark(at_us(49), 50));
  EXPECT_TRUE(cnp.on_mark(at_us(50), 50));
  EXPECT_FALSE(cnp.on_mark(at_us(99), 50));
  EXPECT_TRUE(cnp.on_mark(at_us(5'000), 50));
}

TEST(CnpLimiter, AnIntervalOfZeroReportsNothing) {
  CnpLimiter cnp;
  EXPECT_FALSE(cnp.on_mark(at_us(0), 0));
  EXPECT_FALSE(cnp.on_mark(at_us(1'000'000), 0));
}

TEST(CnpLimiter, HeedsOneReportInHalfAnInterval) {
  CnpLimiter cnp;
  EXPECT_TRUE(cnp.heed(at_us(0), 50, false));
  EXPECT_FALSE(cnp.heed(at_us(24), 50, false));
  EXPECT_TRUE(cnp.heed(at_us(25), 50, false));
  EXPECT_FALSE(cnp.heed(at_us(49), 50, false));
}

TEST(CnpLimiter, AFloodCostsOneReactionPer25Microseconds) {
  CnpLimiter cnp;
  int reactions = 0;
  for (int64_t us = 0; us < 1'000; ++us) reactions += cnp.heed(at_us(us), 50, false) ? 1 : 0;
  EXPECT_EQ(reactions, 40);
}

TEST(CnpLimiter, WithoutAnIntervalOfItsOwnTheUsualOneHolds) {
  CnpLimiter cnp;
  EXPECT_TRUE(cnp.heed(at_us(0), 0, false));
  EXPECT_FALSE(cnp.heed(at_us(24), 0, false));
  EXPECT_TRUE(cnp.heed(at_us(25), 0, false));
}

TEST(CnpLimiter, Counts) {
  CnpLimiter cnp;
  cnp.on_sent();
  cnp.on_received();
  cnp.on_received();
  EXPECT_EQ(cnp.sent(), 1u);
  EXPECT_EQ(cnp.received(), 2u);
}

}  // namespace
}  // namespace uroce::transport
