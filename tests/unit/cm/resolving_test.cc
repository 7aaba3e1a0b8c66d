#include "cm/resolving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace uroce::cm {
namespace {

using namespace std::chrono_literals;

struct Program {};
struct Id {};
using Waiting = Resolving<Program, Id>;

bool nobody_is_late() { return false; }

std::vector<Id*> look_once(Waiting& waiting, Nanos now) {
  std::vector<Id*> seen;
  waiting.look(now, nobody_is_late, [&](Id& id, bool) { seen.push_back(&id); });
  return seen;
}

TEST(Resolving, OneLookIsBoundedAndProgramsTakeTurns) {
  Waiting waiting;
  std::array<Program, 3> programs;
  std::vector<Id> many(5000), few(2);
  Id one;
  for (Id& id : many) waiting.add(programs[0], id, 0ms, kNever);
  for (Id& id : few) waiting.add(programs[1], id, 0ms, kNever);
  waiting.add(programs[2], one, 0ms, kNever);
  for (Nanos now = 1ms; now <= 9ms; now += 1ms) {  // an eighth of the wait is a millisecond at most
    const auto seen = look_once(waiting, now);
    EXPECT_EQ(seen.size(), Waiting::kLooksOfProgram + few.size() + 1);
    EXPECT_EQ(std::ranges::count(seen, &one), 1) << "each look sees the program that has one";
    EXPECT_TRUE(look_once(waiting, now).empty()) << "and not again in the same millisecond";
  }
}

TEST(Resolving, EveryIdHasItsTurn) {
  Waiting waiting;
  Program program;
  std::vector<Id> ids(100);
  for (Id& id : ids) waiting.add(program, id, 0ms, kNever);
  std::set<Id*> seen;
  for (Nanos now = 1ms; now <= 13ms; now += 1ms) {
    for (Id* id : look_once(waiting, now)) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), ids.size());
}

TEST(Resolving, ManyProgramsAreBoundedTogether) {
  Waiting waiting;
  std::vector<Program> programs(200);
  std::vector<Id> ids(200);
  for (std::size_t i = 0; i < ids.size(); ++i) waiting.add(programs[i], ids[i], 0ms, kNever);
  std::set<Id*> seen;
  for (Nanos now = 1ms; now <= 4ms; now += 1ms) {
    const auto some = look_once(waiting, now);
    EXPECT_EQ(some.size(), Waiting::kLooks);
    seen.insert(some.begin(), some.end());
  }
  EXPECT_EQ(seen.size(), ids.size());
}

// A silent peer had its address asked for every millisecond.
TEST(Resolving, AnIdIsLookedAtTheLessOftenTheLongerItWaits) {
  Waiting waiting;
  Program program;
  Id id;
  waiting.add(program, id, 0ms, kNever);
  std::vector<Nanos> looks;
  while (waiting.next_look() < 3s) {
    const Nanos now = waiting.next_look();
    ASSERT_EQ(look_once(waiting, now).size(), 1u);
    const Nanos before = looks.empty() ? Nanos(0) : looks.back();
    EXPECT_LE(now - before, std::max<Nanos>(Waiting::kInterval, before / Waiting::kPart));
    looks.push_back(now);
  }
  EXPECT_LT(looks.size(), 70u);
  EXPECT_TRUE(look_once(waiting, waiting.next_look() - 1ns).empty());
}

TEST(Resolving, AnIdIsLookedAtWhenItsTimeIsUp) {
  Waiting waiting;
  Program program;
  Id id;
  waiting.add(program, id, 0ms, 2000ms);
  Nanos last{0};
  while (!waiting.empty()) {
    last = waiting.next_look();
    waiting.look(last, nobody_is_late, [&](Id& one, bool over) {
      if (over) waiting.remove(program, one);
    });
  }
  EXPECT_EQ(last, Nanos(2000ms));
}

// The answer lay unread beside the timer that was over, and the program had RDMA_CM_EVENT_ADDR_ERROR.
TEST(Resolving, AfterAPauseOfTheMachineAnIdHasALittleTimeMore) {
  Waiting waiting;
  Program program;
  Id id, endless;
  waiting.add(program, id, 0ms, 2000ms);
  waiting.add(program, endless, 0ms, kNever);
  int looks = 0;
  const auto look = [&](Nanos now) {
    bool ended = false;
    waiting.look(now, nobody_is_late, [&](Id& one, bool over) {
      ++looks;
      ended |= over;
      EXPECT_FALSE(over && &one == &endless);
    });
    return ended;
  };
  EXPECT_FALSE(look(1ms));
  const Nanos due = waiting.next_look();
  EXPECT_FALSE(look(due + 5s));
  EXPECT_EQ(looks, 4);
  Nanos now = due + 5s;
  while (!look(now = waiting.next_look())) ASSERT_LT(now, 10s);
  EXPECT_EQ(now, due + 5s + Waiting::kGrace);
}

// udaddy had RDMA_CM_EVENT_ADDR_ERROR beside MPI ranks that spun: the thread that sends the question had no core.
TEST(Resolving, TimeDoesNotEndWhileAnAnswerMayLieUnread) {
  const auto end_of = [](Nanos late_until) {
    Waiting waiting;
    Program program;
    Id id;
    waiting.add(program, id, 0ms, 2000ms);
    Nanos now{0};
    for (bool ended = false; !ended && now < 60s;) {
      now = waiting.next_look();
      waiting.look(now, [&] { return now < late_until; }, [&](Id&, bool over) { ended = over; });
    }
    return now;
  };
  EXPECT_EQ(end_of(0ms), Nanos(2000ms));
  EXPECT_EQ(end_of(1000ms), Nanos(2000ms));
  EXPECT_GE(end_of(3000ms), Nanos(3000ms));
  EXPECT_LE(end_of(3000ms), 3000ms + 2 * Waiting::kGrace);
  EXPECT_EQ(end_of(60s), 2000ms + Waiting::kGraces * Waiting::kGrace) << "the wait has a bound";
}

TEST(Resolving, AnIdIsGivenMoreTimeOnce) {
  Waiting waiting;
  Program program;
  Id id;
  waiting.add(program, id, 0ms, 1ms);
  std::vector<bool> over;
  for (const Nanos now : {1000ms, 2000ms}) waiting.look(now, nobody_is_late, [&](Id&, bool up) { over.push_back(up); });
  EXPECT_EQ(over, (std::vector{false, true})) << "a program that seldom runs its engines";
}

TEST(Resolving, ANewIdDoesNotWaitForAnOldOne) {
  Waiting waiting;
  std::array<Program, 2> programs;
  Id old, fresh;
  waiting.add(programs[0], old, 0ms, kNever);
  for (Nanos now = 1ms; now < 1000ms; now += 1ms) look_once(waiting, now);
  waiting.add(programs[1], fresh, 1000ms, kNever);
  EXPECT_EQ(waiting.next_look(), Nanos(1001ms));
  EXPECT_EQ(look_once(waiting, 1001ms), std::vector{&fresh});
}

TEST(Resolving, AnIdMayEndWhileItIsLookedAt) {
  Waiting waiting;
  std::array<Program, 2> programs;
  std::vector<Id> ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i) waiting.add(programs[i % 2], ids[i], 0ms, kNever);
  std::size_t looks = 0;
  Nanos now{0};
  while (!waiting.empty()) {
    waiting.look(now += 1ms, nobody_is_late, [&](Id& id, bool) {
      ++looks;
      waiting.remove(programs[static_cast<std::size_t>(&id - ids.data()) % 2], id);
    });
  }
  EXPECT_EQ(looks, ids.size());
  waiting.remove(programs[0], ids[0]);
  EXPECT_TRUE(look_once(waiting, now + 1s).empty());
}

}  // namespace
}  // namespace uroce::cm
