#include "control/id_table.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

TEST(IdTable, HandsOutEachIdOnceAndTheOldestFirst) {
  IdTable<int> ids(3);
  EXPECT_EQ(ids.take(), 1u);
  EXPECT_EQ(ids.take(), 2u);
  EXPECT_EQ(ids.take(), 3u);
  EXPECT_EQ(ids.take(), std::nullopt);
  ids.give_back(2);
  ids.give_back(1);
  EXPECT_EQ(ids.take(), 2u);
  EXPECT_EQ(ids.take(), 1u);
  EXPECT_EQ(ids.take(), std::nullopt);
}

TEST(IdTable, FindsExistingObjectsOnly) {
  IdTable<int> ids(2);
  int object = 0;
  const uint32_t id = *ids.take();
  EXPECT_EQ(ids.find(id), nullptr);
  ids.set(id, &object);
  EXPECT_EQ(ids.find(id), &object);
  EXPECT_EQ(ids.find(0), nullptr);
  EXPECT_EQ(ids.find(2), nullptr);
  EXPECT_EQ(ids.find(3), nullptr);
  EXPECT_EQ(ids.find(0xffffffff), nullptr);
  ids.give_back(id);
  EXPECT_EQ(ids.find(id), nullptr);
}

}  // namespace
}  // namespace uroce::control
