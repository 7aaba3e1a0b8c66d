// Frames that the kernel dropped wait while a queue below the socket may be full, and no longer.
#include "pmd_glue/kif/backlog.h"

#include <gtest/gtest.h>

namespace uroce::glue::kif {
namespace {

using std::chrono::microseconds;

TEST(KifBacklog, AFilterDropsAtOnce) {
  Backlog backlog;
  EXPECT_FALSE(backlog.keep_dropped(0, Nanos(5)));
  EXPECT_FALSE(backlog.waits());
}

TEST(KifBacklog, AFullQueueIsAskedAgainWhenFramesHaveLeftIt) {
  Backlog backlog;
  EXPECT_TRUE(backlog.keep_dropped(9000, microseconds(10)));
  EXPECT_TRUE(backlog.full(9000, microseconds(20)));
  EXPECT_FALSE(backlog.full(7500, microseconds(30)));
  EXPECT_TRUE(backlog.keep_dropped(7500, microseconds(30))) << "another sender was faster";
  EXPECT_TRUE(backlog.full(7500, microseconds(40)));
  backlog.passed();
  EXPECT_FALSE(backlog.waits());
  EXPECT_FALSE(backlog.full(9000, microseconds(50)));
}

TEST(KifBacklog, AFilterBehindAQueueDropsWhenTheQueueIsEmpty) {
  Backlog backlog;
  EXPECT_TRUE(backlog.keep_dropped(3000, microseconds(10)));
  EXPECT_TRUE(backlog.keep_dropped(1500, microseconds(20)));
  EXPECT_FALSE(backlog.keep_dropped(0, microseconds(30)));
}

TEST(KifBacklog, AQueueThatStandsStillIsNotWaitedFor) {
  Backlog backlog;
  EXPECT_TRUE(backlog.keep_dropped(3000, Nanos(0)));
  EXPECT_TRUE(backlog.keep_dropped(2000, Backlog::kPatience));  // it has moved
  const Nanos end = 2 * Backlog::kPatience;
  EXPECT_TRUE(backlog.full(2000, end - Nanos(1)));
  EXPECT_FALSE(backlog.full(2000, end));
  EXPECT_FALSE(backlog.keep_dropped(2000, end));
  EXPECT_TRUE(backlog.keep_dropped(2000, end)) << "the next frames";
}

}  // namespace
}  // namespace uroce::glue::kif
