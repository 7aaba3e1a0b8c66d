#include "base/timer_wheel.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

#include "base/random.h"

namespace uroce {
namespace {

constexpr int64_t kTick = TimerWheel::kTickNanos;

std::optional<Nanos> fire_time(TimerWheel& wheel, Nanos from, Nanos until, Nanos step) {
  for (Nanos now = from; now <= until; now += step) {
    bool fired = false;
    wheel.advance(now, [&](TimerNode&) { fired = true; });
    if (fired) return now;
  }
  return std::nullopt;
}

TEST(TimerWheel, FiresNeverEarlyAndAtMostOneTickLate) {
  for (const int64_t delay : {1L, 4095L, 4096L, 4097L, 1'000'000L, 1'048'576L, 70'000'000L, 268'435'456L}) {
    auto wheel = std::make_unique<TimerWheel>();
    TimerNode node;
    wheel->arm(node, Nanos(delay));
    const auto fired = fire_time(*wheel, Nanos(0), Nanos(delay + 4 * kTick), Nanos(1 + delay / 50'000));
    ASSERT_TRUE(fired.has_value()) << delay;
    EXPECT_GE(fired->count(), delay);
    EXPECT_LE(fired->count(), delay + kTick + 1 + delay / 50'000);
  }
}

TEST(TimerWheel, AJumpOverManyDeadlinesFiresThemAll) {
  TimerWheel wheel;
  std::array<TimerNode, 64> nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) wheel.arm(nodes[i], Nanos(int64_t{1} << (i % 40)));
  int fired = 0;
  wheel.advance(Nanos(int64_t{1} << 41), [&](TimerNode&) { ++fired; });
  EXPECT_EQ(fired, 64);
  EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, AWheelIsQuietUntilItsFirstNodeMayBeDue) {
  TimerWheel wheel;
  EXPECT_EQ(wheel.quiet_until(), kNever);
  TimerNode node;
  const Nanos deadline(100 * kTick);
  wheel.arm(node, deadline);
  EXPECT_LE(wheel.quiet_until(), deadline);
  bool fired = false;
  for (Nanos now = wheel.quiet_until(); !fired && now <= deadline; now = wheel.quiet_until())
    wheel.advance(now, [&](TimerNode&) { fired = true; });
  EXPECT_TRUE(fired);
}

TEST(TimerWheel, AfterCatchingUpADeadlineThatHasPassedEndsInTheNextTick) {
  TimerWheel wheel;
  TimerNode node;
  const Nanos now(1000 * kTick);
  wheel.catch_up(now);
  wheel.arm(node, Nanos(1));
  bool fired = false;
  wheel.advance(now, [&](TimerNode&) { fired = true; });
  EXPECT_FALSE(fired);
  wheel.advance(now + Nanos(kTick), [&](TimerNode&) { fired = true; });
  EXPECT_TRUE(fired);
}

/// Between two that are due, any node may be armed or cancelled.
TEST(TimerWheel, TakesNodesThatAreDueOneByOne) {
  TimerWheel wheel;
  std::array<TimerNode, 64> nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) wheel.arm(nodes[i], Nanos(int64_t{1} << (i % 32)));
  const Nanos end(int64_t{1} << 31);
  int taken = 0;
  uint64_t last = 0;
  while (TimerNode* const node = wheel.take_due(end)) {
    EXPECT_FALSE(node->armed());
    EXPECT_GE(node->tick, last);
    last = node->tick;
    const auto i = static_cast<std::size_t>(node - nodes.data());
    if (i < 32) wheel.cancel(nodes[i + 32]);
    if (++taken <= 32) wheel.arm(*node, end + end);
  }
  EXPECT_EQ(taken, 32);
  EXPECT_GT(wheel.next_deadline(), end);
  EXPECT_EQ(wheel.take_due(end), nullptr);
  while (wheel.take_due(end + end + Nanos(kTick)) != nullptr) ++taken;
  EXPECT_EQ(taken, 64);
  EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, CancelledNodesDoNotFireAndACallbackMayRearm) {
  TimerWheel wheel;
  TimerNode a;
  TimerNode b;
  wheel.arm(a, Nanos(10'000));
  wheel.arm(b, Nanos(10'000));
  int fired = 0;
  wheel.advance(Nanos(20'000), [&](TimerNode& node) {
    if (++fired > 1) return;
    wheel.cancel(&node == &a ? b : a);
    wheel.arm(node, Nanos(30'000));
  });
  EXPECT_EQ(fired, 1);
  wheel.advance(Nanos(40'000), [&](TimerNode&) { ++fired; });
  EXPECT_EQ(fired, 2);
}

TEST(TimerWheel, AgreesWithASimpleListOverRandomUse) {
  const uint64_t seed = 20261121;
  Random random(seed);
  SCOPED_TRACE(seed);
  TimerWheel wheel;
  std::array<TimerNode, 32> nodes;
  std::array<std::optional<int64_t>, 32> expected;
  int64_t now = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::size_t i = random.below(nodes.size());
    switch (random.below(3)) {
      case 0: {
        const int64_t deadline = now + 1 + static_cast<int64_t>(random.below(uint64_t{1} << (4 + random.below(34))));
        wheel.arm(nodes[i], Nanos(deadline));
        expected[i] = deadline;
        break;
      }
      case 1:
        if (random.below(8) == 0) {
          wheel.cancel(nodes[i]);
          expected[i].reset();
        }
        break;
      default: {
        const Nanos due = wheel.next_deadline();
        now += static_cast<int64_t>(random.below(uint64_t{1} << (4 + random.below(30))));
        wheel.advance(Nanos(now), [&](TimerNode& node) {
          auto& want = expected[static_cast<std::size_t>(&node - nodes.data())];
          ASSERT_TRUE(want.has_value());
          ASSERT_LE(*want, now);
          ASSERT_LE(due.count(), now);
          want.reset();
        });
        for (const auto& want : expected) ASSERT_TRUE(!want || *want + kTick >= now);
      }
    }
  }
}

}  // namespace
}  // namespace uroce
