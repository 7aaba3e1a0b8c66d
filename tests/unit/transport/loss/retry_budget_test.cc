#include "transport/loss/retry_budget.h"

#include <gtest/gtest.h>

#include "transport/loss/loss_detector.h"

namespace uroce::transport {
namespace {

TEST(AckTimeout, DoublesPerCodeAndZeroIsNever) {
  EXPECT_EQ(ack_timeout(0), kNever);
  EXPECT_EQ(ack_timeout(1), Nanos(8192));
  EXPECT_EQ(ack_timeout(14), Nanos(67'108'864));
  EXPECT_EQ(ack_timeout(31), Nanos(int64_t{4096} << 31));
}

int spend_all(RetryBudget budget) {
  int n = 0;
  while (n < 100 && budget.spend()) ++n;
  return n;
}

TEST(RetryBudget, AllowsRetryCntRetries) {
  RetryBudget budget;
  EXPECT_FALSE(budget.spend()) << "nothing has been set";
  for (const int retries : {0, 1, 7}) {
    budget.refill(static_cast<uint8_t>(retries), 0);
    EXPECT_EQ(spend_all(budget), retries) << "7 is finite too";
  }
}

TEST(RetryBudget, ProgressRefillsBoth) {
  RetryBudget budget;
  budget.refill(1, 1);
  EXPECT_TRUE(budget.spend());
  EXPECT_TRUE(budget.spend_rnr(0, 1));
  EXPECT_FALSE(budget.spend());
  EXPECT_FALSE(budget.spend_rnr(0, 1));
  budget.refill(1, 1);
  EXPECT_TRUE(budget.spend());
  EXPECT_TRUE(budget.spend_rnr(0, 1));
}

TEST(RetryBudget, RnrRetrySevenHasNoEnd) {
  RetryBudget budget;
  budget.refill(7, RetryBudget::kRnrForever);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(budget.spend_rnr(7, RetryBudget::kRnrForever));
  budget.refill(7, 6);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(budget.spend_rnr(7, 6));
  EXPECT_FALSE(budget.spend_rnr(7, 6));
}

TEST(RetryBudget, AnRnrNakShowsThatThePeerIsThere) {
  RetryBudget budget;
  budget.refill(3, 2);
  budget.spend();
  budget.spend();
  EXPECT_TRUE(budget.spend_rnr(3, 2));
  EXPECT_EQ(spend_all(budget), 3);
}

TEST(SilenceExhaustsRetries, TakesEnoughTimersAndEnoughTime) {
  const Nanos enough = ack_timeout(10) * 4;
  EXPECT_TRUE(silence_exhausts_retries(4, enough, 10, 3));
  EXPECT_FALSE(silence_exhausts_retries(3, enough, 10, 3));
  EXPECT_FALSE(silence_exhausts_retries(4, enough - Nanos(1), 10, 3));
  EXPECT_TRUE(silence_exhausts_retries(1, ack_timeout(10), 10, 0)) << "no retry: the first silence ends it";
  EXPECT_FALSE(silence_exhausts_retries(1'000'000, Nanos(INT64_MAX), 0, 0)) << "a QP without a timeout";
}

TEST(RetransmissionCounts, CountForTheCauseInForce) {
  RetransmissionCounts counts;
  counts.cause = Cause::probe;
  counts.add();
  counts.add();
  counts.cause = Cause::timeout;
  counts.add();
  EXPECT_EQ(counts.of(Cause::hole), 0u);
  EXPECT_EQ(counts.of(Cause::probe), 2u);
  EXPECT_EQ(counts.of(Cause::timeout), 1u);
}

}  // namespace
}  // namespace uroce::transport
