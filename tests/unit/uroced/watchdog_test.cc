#include "uroced/watchdog.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::daemon {
namespace {

using std::chrono::seconds;
using Rounds = std::vector<uint64_t>;
using Stuck = std::vector<std::size_t>;

const Watchdog::Time kStart = Watchdog::Time(std::chrono::hours(1));

TEST(Watchdog, IsFedWhileEveryEngineTurns) {
  Watchdog watchdog{seconds(20)};
  EXPECT_EQ(watchdog.time_to_look(kStart), seconds(0));
  for (uint64_t i = 0; i < 10; ++i) {
    const auto verdict = watchdog.look(kStart + seconds(5 * i), Rounds{i, 1000 * i, i});
    ASSERT_TRUE(verdict);
    EXPECT_TRUE(verdict->feed);
    EXPECT_TRUE(verdict->stuck.empty());
  }
}

TEST(Watchdog, LooksFourTimesAsOftenAsItMustBeFed) {
  Watchdog watchdog{seconds(20)};
  ASSERT_TRUE(watchdog.look(kStart, Rounds{1}));
  EXPECT_EQ(watchdog.time_to_look(kStart + seconds(1)), seconds(4));
  // Signals and rounds of an embedded engine come in between; they are no look.
  EXPECT_FALSE(watchdog.look(kStart + seconds(1), Rounds{1}));
  EXPECT_FALSE(watchdog.look(kStart + seconds(4), Rounds{1}));
  EXPECT_EQ(watchdog.time_to_look(kStart + seconds(7)), seconds(0));
  EXPECT_TRUE(watchdog.look(kStart + seconds(7), Rounds{2})->feed);
}

TEST(Watchdog, OneStuckEngineStarvesIt) {
  Watchdog watchdog{seconds(20)};
  ASSERT_TRUE(watchdog.look(kStart, Rounds{1, 1})->feed);
  const auto first = watchdog.look(kStart + seconds(5), Rounds{2, 1});
  EXPECT_FALSE(first->feed);
  EXPECT_EQ(first->stuck, Stuck{1});
  for (uint64_t i = 2; i < 8; ++i) {
    const auto later = watchdog.look(kStart + seconds(5 * i), Rounds{i + 1, 1});
    EXPECT_FALSE(later->feed);
    EXPECT_TRUE(later->stuck.empty()) << "told once";
  }
}

TEST(Watchdog, IsFedAgainWhenTheEngineGoesOn) {
  Watchdog watchdog{seconds(20)};
  watchdog.look(kStart, Rounds{1, 1});
  watchdog.look(kStart + seconds(5), Rounds{1, 2});
  const auto again = watchdog.look(kStart + seconds(10), Rounds{2, 3});
  EXPECT_TRUE(again->feed);
  EXPECT_EQ(again->turning, Stuck{0});
  EXPECT_EQ(watchdog.look(kStart + seconds(15), Rounds{2, 4})->stuck, Stuck{0});
}

}  // namespace
}  // namespace uroce::daemon
