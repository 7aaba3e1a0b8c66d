#include "transport/loss/reorder_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace uroce::transport {
namespace {

constexpr Psn kExpected{0xfffffd};  // PSNs wrap after three
constexpr FrameHolder kHolder{.user = 1}, kOther{.user = 2};

std::vector<std::byte> frame_of(uint8_t value) { return std::vector<std::byte>(64, std::byte{value}); }

// Frames are named by how far they are ahead of the expected one, which is also the value of their bytes.
class Reordering : public ::testing::Test {
 protected:
  bool keep(uint8_t ahead) { return buffer_.keep(pool_, kHolder, kExpected + ahead, kExpected, frame_of(ahead)); }
  bool has(uint32_t ahead) { return buffer_.has(kExpected + ahead, kExpected); }
  // Takes the frame and checks its bytes.
  bool take(uint8_t ahead) {
    const uint16_t number = buffer_.take(pool_, kExpected + ahead);
    if (number == 0) return false;
    EXPECT_TRUE(std::ranges::equal(pool_.frame(number), frame_of(ahead)));
    pool_.release(number);
    return true;
  }

  FramePool pool_{16};
  ReorderBuffer buffer_{8};
};

TEST_F(Reordering, ReachesOneLessThanTheWindow) {
  EXPECT_EQ(buffer_.capacity(), 7u);
  EXPECT_TRUE(keep(1));
  EXPECT_TRUE(keep(7));
  EXPECT_FALSE(keep(8)) << "too far ahead";
  EXPECT_EQ(buffer_.count(), 2u);
  EXPECT_EQ(ReorderBuffer(5).capacity(), 7u) << "a power of two";
  EXPECT_EQ(ReorderBuffer(100'000).capacity(), PsnSet::kSize - 1);
}

TEST_F(Reordering, GivesBackWhatItKeptAcrossTheWrapOfPsns) {
  for (const uint8_t ahead : {5, 1, 3, 2}) EXPECT_TRUE(keep(ahead));
  EXPECT_TRUE(has(3));
  EXPECT_FALSE(has(4));
  EXPECT_FALSE(has(3 + 1024)) << "the same place in the set, a round later";
  for (const uint8_t ahead : {1, 2, 3}) EXPECT_TRUE(take(ahead));
  EXPECT_FALSE(take(3));
  EXPECT_FALSE(take(4));
  EXPECT_EQ(buffer_.count(), 1u);
  EXPECT_TRUE(take(5));
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(pool_.used(), 0u);
}

TEST_F(Reordering, KeepsTheFirstOfTwoCopies) {
  EXPECT_TRUE(keep(2));
  EXPECT_FALSE(keep(2));
  EXPECT_EQ(buffer_.count(), 1u);
  EXPECT_EQ(pool_.used(), 1u);
}

TEST_F(Reordering, KeepsNothingMoreInAFullPool) {
  std::vector<uint16_t> taken;
  for (int i = 0; i < 10; ++i) taken.push_back(pool_.keep(frame_of(0)));
  for (uint8_t ahead = 1; ahead <= 3; ++ahead) EXPECT_TRUE(keep(ahead));
  EXPECT_FALSE(keep(7));
  EXPECT_FALSE(has(7));
  for (const uint16_t number : taken) pool_.release(number);
  EXPECT_TRUE(keep(7));
}

TEST_F(Reordering, AFrameThatIsTooLongIsNotKept) {
  const std::vector<std::byte> frame(FramePool::kFrameBytes + 1);
  EXPECT_FALSE(buffer_.keep(pool_, kHolder, kExpected + 1, kExpected, frame));
  EXPECT_TRUE(buffer_.empty());
}

TEST_F(Reordering, DropsARange) {
  for (const uint8_t ahead : {1, 2, 4, 5, 6}) keep(ahead);
  buffer_.drop(pool_, kExpected + 2, kExpected + 5);
  EXPECT_EQ(buffer_.count(), 3u);
  EXPECT_EQ(pool_.used(), 3u);
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2));
  EXPECT_FALSE(has(4));
  EXPECT_TRUE(has(5));
  buffer_.drop(pool_, kExpected + 5, kExpected + 5);
  EXPECT_EQ(buffer_.count(), 3u) << "an empty range";
  buffer_.drop(pool_, kExpected, kExpected + PsnSet::kSize);
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(pool_.used(), 0u);
}

TEST_F(Reordering, DropsEverything) {
  for (const uint8_t ahead : {1, 3, 7}) keep(ahead);
  buffer_.drop_all(pool_);
  EXPECT_TRUE(buffer_.empty());
  EXPECT_EQ(pool_.used(), 0u);
  EXPECT_FALSE(has(3));
  EXPECT_TRUE(keep(3));
}

TEST_F(Reordering, ShowsWhatIsThereAsABitmap) {
  for (const uint8_t ahead : {1, 4}) keep(ahead);
  EXPECT_EQ(buffer_.end(), kExpected + 5);
  EXPECT_EQ(buffer_.bits_from(kExpected + 1), 0b1001u);
  keep(3);
  EXPECT_EQ(buffer_.end(), kExpected + 5) << "one past the newest";
  EXPECT_EQ(buffer_.bits_from(kExpected), 0b11010u);
}

TEST_F(Reordering, TheEndStartsAfreshOnceItWasEmpty) {
  keep(6);
  take(6);
  keep(2);
  EXPECT_EQ(buffer_.end(), kExpected + 3);
}

// How many frames in a row the buffer takes.
uint32_t fill(ReorderBuffer& buffer, FramePool& pool, const FrameHolder& holder) {
  uint32_t kept = 0;
  while (kept < buffer.capacity() && buffer.keep(pool, holder, Psn(1 + kept), Psn(0), frame_of(1))) ++kept;
  return kept;
}

TEST(ReorderBuffers, OneLeavesHalfOfThePoolToTheOthers) {
  FramePool pool(8);
  ReorderBuffer one(16);
  ReorderBuffer other(16);
  EXPECT_EQ(fill(one, pool, kHolder), 4u);
  EXPECT_EQ(fill(other, pool, kHolder), 2u);
  one.drop_all(pool);
  EXPECT_TRUE(other.keep(pool, kHolder, Psn(3), Psn(0), frame_of(3))) << "what came free";
  other.drop_all(pool);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(ReorderBuffers, AUserWithManyLeavesAFifthOfThePoolToOtherUsers) {
  FramePool pool(10);
  std::vector<ReorderBuffer> many(100, ReorderBuffer(16));
  uint32_t kept = 0;
  uint32_t peer = 0;
  for (ReorderBuffer& buffer : many) kept += fill(buffer, pool, {.user = 1, .peer = Gid::from_ipv4(++peer)});
  EXPECT_EQ(kept, 8u);
  ReorderBuffer other(16);
  EXPECT_EQ(fill(other, pool, kOther), 1u);
  for (ReorderBuffer& buffer : many) buffer.drop_all(pool);
  other.drop_all(pool);
  EXPECT_EQ(fill(other, pool, kOther), 5u);
}

TEST(ReorderBuffers, APeerWithManyLeavesAThirdOfThePoolToTheUsersOtherPeers) {
  FramePool pool(9);
  std::vector<ReorderBuffer> many(100, ReorderBuffer(16));
  uint32_t kept = 0;
  for (ReorderBuffer& buffer : many) kept += fill(buffer, pool, {.user = 1, .peer = Gid::from_ipv4(1)});
  EXPECT_EQ(kept, 6u);
  ReorderBuffer other(16);
  EXPECT_EQ(fill(other, pool, {.user = 1, .peer = Gid::from_ipv4(2)}), 2u);
}

// Otherwise a user whose friend runs at that address could keep out the user that has honest business there.
TEST(ReorderBuffers, WhatAPeerHoldsOfOneUserItDoesNotHoldOfAnother) {
  FramePool pool(9);
  std::vector<ReorderBuffer> many(100, ReorderBuffer(16));
  for (ReorderBuffer& buffer : many) fill(buffer, pool, {.user = 1, .peer = Gid::from_ipv4(1)});
  ReorderBuffer other(16);
  EXPECT_EQ(fill(other, pool, {.user = 2, .peer = Gid::from_ipv4(1)}), 2u);
}

TEST(ReorderBuffers, WhatThePeerKnowsToBeHereIsRestoredWhileThereIsRoom) {
  FramePool pool(4);
  ReorderBuffer buffer(8);
  EXPECT_EQ(fill(buffer, pool, kHolder), 2u);
  EXPECT_TRUE(buffer.restore(pool, kHolder, Psn(3), Psn(0), frame_of(3)));
  EXPECT_TRUE(buffer.restore(pool, kHolder, Psn(4), Psn(0), frame_of(4)));
  EXPECT_FALSE(buffer.restore(pool, kHolder, Psn(5), Psn(0), frame_of(5)));
}

}  // namespace
}  // namespace uroce::transport
