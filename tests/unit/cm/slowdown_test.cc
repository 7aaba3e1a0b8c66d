#include "cm/slowdown.h"

#include <gtest/gtest.h>

namespace uroce::cm {
namespace {

using namespace std::chrono_literals;

class SlowdownTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kUser = 1000, kOtherUser = 2000;
  static Gid peer(uint32_t n) { return Gid::from_ipv4(0x0a000000 + n); }
  /// How many of `wanted` connections the first peer gets now.
  uint32_t admitted(uint32_t wanted, uint32_t user = kUser) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < wanted; ++i) count += slowdown_.admits(peer(1), user, now_) ? 1 : 0;
    return count;
  }
  void accuse(uint32_t connections = Slowdown::kWrong) { slowdown_.on_wrong_keys(peer(1), kUser, connections, now_); }

  Nanos now_ = 1h;
  Slowdown slowdown_;
};

TEST_F(SlowdownTest, AFewWrongKeysAreAccidents) {
  EXPECT_TRUE(slowdown_.empty());
  accuse(Slowdown::kWrong - 1);
  EXPECT_EQ(admitted(1000), 1000u);
  // They are forgotten.
  now_ += Slowdown::kLongest;
  accuse(Slowdown::kWrong - 1);
  EXPECT_EQ(admitted(1000), 1000u);
}

TEST_F(SlowdownTest, AGuesserGetsOneConnectionInASecond) {
  uint32_t guesses = 0;
  for (int ms = 0; ms < 600'000; ++ms, now_ += 1ms) {
    if (!slowdown_.admits(peer(1), kUser, now_)) continue;
    ++guesses;
    accuse(1);
  }
  EXPECT_EQ(guesses, Slowdown::kWrong + Slowdown::kAtOnce + 599);
}

// A host whose programs had to connect again, all at once, after somebody forged its address. Linux repeats a request
// after 4.3 s, 15 times.
TEST_F(SlowdownTest, AnAccusedPeerGetsAllItsRequestsThrough) {
  accuse();
  uint32_t waiting = 1000;
  for (int round = 0; round < 16; ++round, now_ += 4300ms) {
    const uint32_t now_admitted = admitted(waiting);
    EXPECT_GE(now_admitted, std::min(waiting, 4u)) << round;
    waiting -= now_admitted;
  }
  EXPECT_EQ(waiting, 0u);
}

TEST_F(SlowdownTest, EvenWhereTheAccusationsGoOnFourGetThroughWithEachRepetition) {
  for (int round = 0; round < 100; ++round, now_ += 4300ms) {
    accuse();
    EXPECT_GE(admitted(1000), 4u) << round;
  }
}

TEST_F(SlowdownTest, ConcernsOnePeerAndOneUser) {
  accuse(100);
  EXPECT_EQ(admitted(1000, kOtherUser), 1000u) << "whose queue pairs nobody guessed at";
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(slowdown_.admits(peer(2), kUser, now_));
  EXPECT_EQ(admitted(1000), Slowdown::kAtOnce);
}

TEST_F(SlowdownTest, RemembersTheNewest) {
  accuse();
  for (uint32_t n = 2; n <= Slowdown::kPeers + 1; ++n) slowdown_.on_wrong_keys(peer(n), kUser, 4, now_ += 1ms);
  EXPECT_EQ(admitted(1000), 1000u);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(slowdown_.admits(peer(2), kUser, now_));
  EXPECT_FALSE(slowdown_.admits(peer(2), kUser, now_));
}

}  // namespace
}  // namespace uroce::cm
