#include "uroced/crash_loop.h"

#include <gtest/gtest.h>

namespace uroce::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(CrashLoop, FiveShortRunsInARowAreTheEnd) {
  CrashLoop crashes;
  for (int i = 1; i < CrashLoop::kCrashes; ++i) EXPECT_TRUE(crashes.start_again(milliseconds(9'999))) << i;
  EXPECT_FALSE(crashes.start_again(milliseconds(9'999)));
}

TEST(CrashLoop, ALongRunBeginsTheCountAgain) {
  CrashLoop crashes;
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i < CrashLoop::kCrashes; ++i) EXPECT_TRUE(crashes.start_again(seconds(0)));
    EXPECT_TRUE(crashes.start_again(seconds(10)));
  }
}

}  // namespace
}  // namespace uroce::daemon
