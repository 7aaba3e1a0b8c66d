#include "cm/resolving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace uroce::cm {
namespace {

struct Program {};
struct Id {};
using Waiting = Resolving<Program, Id>;

std::vector<Id*> look_once(Waiting& waiting) {
  std::vector<Id*> seen;
  waiting.look([&](Id& id) { seen.push_back(&id); });
  return seen;
}

TEST(Resolving, OneLookIsBoundedAndProgramsTakeTurns) {
  Waiting waiting;
  std::array<Program, 3> programs;
  std::vector<Id> many(5000), few(2);
  Id one;
  for (Id& id : many) waiting.add(programs[0], id);
  for (Id& id : few) waiting.add(programs[1], id);
  waiting.add(programs[2], one);
  for (int i = 0; i < 10; ++i) {
    const auto seen = look_once(waiting);
    EXPECT_EQ(seen.size(), Waiting::kLooksOfProgram + few.size() + 1);
    EXPECT_EQ(std::ranges::count(seen, &one), 1) << "each look sees the program that has one";
  }
}

TEST(Resolving, EveryIdHasItsTurn) {
  Waiting waiting;
  Program program;
  std::vector<Id> ids(100);
  for (Id& id : ids) waiting.add(program, id);
  std::set<Id*> seen;
  for (int i = 0; i < 13; ++i) {
    for (Id* id : look_once(waiting)) seen.insert(id);
  }
  EXPECT_EQ(seen.size(), ids.size());
}

TEST(Resolving, ManyProgramsAreBoundedTogether) {
  Waiting waiting;
  std::vector<Program> programs(200);
  std::vector<Id> ids(200);
  for (std::size_t i = 0; i < ids.size(); ++i) waiting.add(programs[i], ids[i]);
  std::set<Id*> seen;
  for (int i = 0; i < 4; ++i) {
    const auto some = look_once(waiting);
    EXPECT_EQ(some.size(), Waiting::kLooks);
    seen.insert(some.begin(), some.end());
  }
  EXPECT_EQ(seen.size(), ids.size());
}

TEST(Resolving, AnIdMayEndWhileItIsLookedAt) {
  Waiting waiting;
  std::array<Program, 2> programs;
  std::vector<Id> ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i) waiting.add(programs[i % 2], ids[i]);
  std::size_t looks = 0;
  while (!waiting.empty()) {
    waiting.look([&](Id& id) {
      ++looks;
      waiting.remove(programs[static_cast<std::size_t>(&id - ids.data()) % 2], id);
    });
  }
  EXPECT_EQ(looks, ids.size());
  waiting.remove(programs[0], ids[0]);
  EXPECT_TRUE(look_once(waiting).empty());
}

}  // namespace
}  // namespace uroce::cm
