#include "cm/ib/backlog.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace uroce::cm {
namespace {

const Gid kOne = Gid::from_ipv4(1), kOther = Gid::from_ipv4(2), kThird = Gid::from_ipv4(3);

TEST(Backlog, OnePeerMayFillIt) {
  Backlog backlog(3);
  for (uint32_t id = 1; id <= 3; ++id) {
    EXPECT_FALSE(backlog.full());
    backlog.add(kOne, id);
  }
  EXPECT_TRUE(backlog.full());
  EXPECT_EQ(backlog.displaced_by(kOne), std::nullopt);
}

TEST(Backlog, AnotherPeerTakesThePlaceOfTheNewest) {
  Backlog backlog(4);
  std::map<uint32_t, Backlog::Place> places;
  for (uint32_t id = 1; id <= 4; ++id) places[id] = backlog.add(kOne, id);
  for (const uint32_t id : {4u, 3u}) {
    ASSERT_EQ(backlog.displaced_by(kOther), id);
    backlog.remove(kOne, places.at(id));
    backlog.add(kOther, 10 + id);
  }
  EXPECT_EQ(backlog.displaced_by(kOther), std::nullopt) << "they share it";
  EXPECT_EQ(backlog.displaced_by(kOne), std::nullopt);
  EXPECT_TRUE(backlog.displaced_by(kThird)) << "who has nothing yet";
}

TEST(Backlog, PeersWithOneEachKeepTheirs) {
  Backlog backlog(2);
  backlog.add(kOne, 1);
  backlog.add(kOther, 2);
  EXPECT_EQ(backlog.displaced_by(kThird), std::nullopt);
}

TEST(Backlog, TheOldestMayHaveToLeave) {
  Backlog backlog(3, Backlog::Full::drops_oldest);
  const auto oldest = backlog.add(kOther, 1);
  backlog.add(kOne, 2);
  const auto newest = backlog.add(kOne, 3);
  EXPECT_EQ(backlog.displaced_by(kThird), 3u) << "of the peer that has the most, the newest";
  backlog.remove(kOne, newest);
  backlog.add(kThird, 4);
  EXPECT_EQ(backlog.displaced_by(kOther), 1u) << "they share it";
  backlog.remove(kOther, oldest);
  backlog.add(Gid::from_ipv4(4), 5);
  EXPECT_EQ(backlog.displaced_by(kOther), 2u);
}

TEST(Backlog, OfNothingHoldsNothing) {
  const Backlog backlog(0);
  EXPECT_TRUE(backlog.full());
  EXPECT_EQ(backlog.displaced_by(kOne), std::nullopt);
}

}  // namespace
}  // namespace uroce::cm
