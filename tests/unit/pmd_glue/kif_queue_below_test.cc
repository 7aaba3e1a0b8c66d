// Frames that the kernel dropped wait while a queue below the socket may be full, and no longer.
#include "pmd_glue/kif/queue_below.h"

#include <gtest/gtest.h>

namespace uroce::glue::kif {
namespace {

using std::chrono::microseconds;

TEST(KifQueueBelow, AFilterDropsAtOnce) {
  QueueBelow below;
  EXPECT_FALSE(below.keep_dropped(0, Nanos(5)));
  EXPECT_FALSE(below.waits());
}

TEST(KifQueueBelow, AFullQueueIsAskedAgainWhenFramesHaveLeftIt) {
  QueueBelow below;
  EXPECT_TRUE(below.keep_dropped(9000, microseconds(10)));
  EXPECT_TRUE(below.full(9000, microseconds(20)));
  EXPECT_FALSE(below.full(7500, microseconds(30)));
  EXPECT_TRUE(below.keep_dropped(7500, microseconds(30))) << "another sender was faster";
  EXPECT_TRUE(below.full(7500, microseconds(40)));
  below.passed();
  EXPECT_FALSE(below.waits());
  EXPECT_FALSE(below.full(9000, microseconds(50)));
}

TEST(KifQueueBelow, AFilterBehindAQueueDropsWhenTheQueueIsEmpty) {
  QueueBelow below;
  EXPECT_TRUE(below.keep_dropped(3000, microseconds(10)));
  EXPECT_TRUE(below.keep_dropped(1500, microseconds(20)));
  EXPECT_FALSE(below.keep_dropped(0, microseconds(30)));
}

TEST(KifQueueBelow, AQueueThatStandsStillIsNotWaitedFor) {
  QueueBelow below;
  EXPECT_TRUE(below.keep_dropped(3000, Nanos(0)));
  EXPECT_TRUE(below.keep_dropped(2000, QueueBelow::kPatience));  // it has moved
  const Nanos end = 2 * QueueBelow::kPatience;
  EXPECT_TRUE(below.full(2000, end - Nanos(1)));
  EXPECT_FALSE(below.full(2000, end));
  EXPECT_FALSE(below.keep_dropped(2000, end));
  EXPECT_TRUE(below.keep_dropped(2000, end)) << "the next frames";
}

}  // namespace
}  // namespace uroce::glue::kif
