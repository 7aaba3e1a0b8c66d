#include "service/log_limit.h"

#include <gtest/gtest.h>

namespace uroce::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const LogLimit::Time kStart = LogLimit::Time(std::chrono::hours(1));

uint32_t admitted(LogLimit& limit, uint32_t uid, uint32_t lines, LogLimit::Time now) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < lines; ++i) count += limit.admit(uid, now) ? 1 : 0;
  return count;
}

TEST(LogLimit, AdmitsABurstAndThenALinePerSecond) {
  LogLimit limit;
  EXPECT_EQ(admitted(limit, 1000, 50'500, kStart), LogLimit::kBurst);
  EXPECT_EQ(admitted(limit, 1000, 10, kStart + milliseconds(999)), 0u);
  EXPECT_EQ(admitted(limit, 1000, 10, kStart + milliseconds(1000)), 1u);
  EXPECT_EQ(admitted(limit, 1000, 10, kStart + milliseconds(4500)), 3u);
  EXPECT_EQ(admitted(limit, 1000, 10, kStart + milliseconds(5000)), 1u);
}

TEST(LogLimit, RefillsToABurstAtMost) {
  LogLimit limit;
  admitted(limit, 1000, 100, kStart);
  EXPECT_EQ(admitted(limit, 1000, 100, kStart + std::chrono::hours(24)), LogLimit::kBurst);
}

TEST(LogLimit, OneUserTakesNoLineFromAnother) {
  LogLimit limit;
  admitted(limit, 1000, 100'000, kStart);
  EXPECT_EQ(admitted(limit, 0, 10, kStart), 10u);
}

TEST(LogLimit, TellsOnceWhatItLeftOut) {
  LogLimit limit;
  EXPECT_EQ(admitted(limit, 1000, 50, kStart), 20u);
  EXPECT_TRUE(limit.due(kStart + seconds(9)).empty());
  const auto due = limit.due(kStart + seconds(10));
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].uid, 1000u);
  EXPECT_EQ(due[0].lines, 30u);
  EXPECT_TRUE(limit.due(kStart + seconds(60)).empty());
}

TEST(LogLimit, ManyUsersTogetherAreBoundedToo) {
  LogLimit limit;
  uint32_t lines = 0;
  for (uint32_t uid = 0; uid < 65'536; ++uid) lines += admitted(limit, uid, 5, kStart);
  EXPECT_EQ(lines, LogLimit::kBurstOfAll);
  uint64_t told = 0;
  const auto due = limit.due(kStart + seconds(10));
  EXPECT_LE(due.size(), LogLimit::kUsers + 1);
  for (const LogLimit::Summary& one : due) told += one.lines;
  EXPECT_EQ(told, 65'536u * 5 - LogLimit::kBurstOfAll);
  // Users who have been quiet make room for others.
  EXPECT_TRUE(limit.admit(70'000, kStart + seconds(60)));
}

}  // namespace
}  // namespace uroce::service
