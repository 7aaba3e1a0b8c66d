#include "transport/loss/reorder_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace uroce::transport {
namespace {

constexpr Psn kExpected{0xfffffd};  // PSNs wrap after three

std::vector<std::byte> frame_of(uint8_t value) { return std::vector<std::byte>(64, std::byte{value}); }

// Frames are named by how far they are ahead of the expected one, which is also the value of their bytes.
class Reordering : public ::testing::Test {
 protected:
  bool keep(uint8_t ahead) { return buffer_.keep(pool_, kExpected + ahead, kExpected, frame_of(ahead)); }
  bool has(uint32_t ahead) { return buffer_.has(kExpected + ahead, kExpected); }
  // Takes the frame and checks its bytes.
  bool take(uint8_t ahead) {
    const uint16_t number = buffer_.take(kExpected + ahead);
    if (number == 0) return false;
    EXPECT_TRUE(std::ranges::equal(pool_.frame(number), frame_of(ahead)));
    pool_.release(number);
    return true;
  }

  FramePool pool_{6};
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
  for (uint8_t ahead = 1; ahead <= 6; ++ahead) EXPECT_TRUE(keep(ahead));
  EXPECT_FALSE(keep(7));
  EXPECT_FALSE(has(7));
  EXPECT_TRUE(take(1));
  EXPECT_TRUE(keep(7));
}

TEST_F(Reordering, AFrameThatIsTooLongIsNotKept) {
  const std::vector<std::byte> frame(FramePool::kFrameBytes + 1);
  EXPECT_FALSE(buffer_.keep(pool_, kExpected + 1, kExpected, frame));
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

TEST(ReorderBuffers, ShareThePool) {
  FramePool pool(2);
  ReorderBuffer one(8);
  ReorderBuffer other(8);
  EXPECT_TRUE(one.keep(pool, Psn(1), Psn(0), frame_of(1)));
  EXPECT_TRUE(other.keep(pool, Psn(1), Psn(0), frame_of(2)));
  EXPECT_FALSE(one.keep(pool, Psn(2), Psn(0), frame_of(3)));
  other.drop_all(pool);
  EXPECT_TRUE(one.keep(pool, Psn(2), Psn(0), frame_of(3)));
}

}  // namespace
}  // namespace uroce::transport
