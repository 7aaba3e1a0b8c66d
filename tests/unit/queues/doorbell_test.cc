#include "queues/doorbell.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace uroce::queues {
namespace {

class DoorbellTest : public testing::Test {
 protected:
  static constexpr uint32_t kEntries = 16;
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::byte* memory() { return reinterpret_cast<std::byte*>(memory_.data()); }

  std::vector<Line> memory_ = std::vector<Line>(doorbell_bytes(kEntries) / sizeof(Line));
  std::array<DoorbellFlag, kEntries> flags_{};
  DoorbellPoster poster_{memory(), kEntries};
  DoorbellReader reader_{memory(), kEntries};
};

TEST_F(DoorbellTest, TokensComeInOrderAndOnce) {
  EXPECT_TRUE(reader_.empty());
  EXPECT_EQ(reader_.take(), 0u);
  poster_.ring(flags_[0], 11);
  poster_.ring(flags_[1], 22);
  EXPECT_FALSE(reader_.empty());
  EXPECT_EQ(reader_.take(), 11u);
  EXPECT_EQ(reader_.take(), 22u);
  EXPECT_EQ(reader_.take(), 0u);
  EXPECT_TRUE(reader_.empty());
}

TEST_F(DoorbellTest, AQueueIsEnteredOnceUntilItsFlagIsCleared) {
  for (int i = 0; i < 100; ++i) poster_.ring(flags_[0], 11);
  EXPECT_EQ(reader_.take(), 11u);
  EXPECT_EQ(reader_.take(), 0u);
  poster_.ring(flags_[0], 11);
  EXPECT_EQ(reader_.take(), 0u) << "the flag is still set";
  EXPECT_TRUE(DoorbellReader::clear(flags_[0]));
  EXPECT_FALSE(DoorbellReader::clear(flags_[0]));
  poster_.ring(flags_[0], 11);
  EXPECT_EQ(reader_.take(), 11u);
}

TEST_F(DoorbellTest, WrapsRound) {
  for (uint32_t i = 0; i < 10 * kEntries; ++i) {
    DoorbellFlag& flag = flags_[i % kEntries];
    poster_.ring(flag, i + 1);
    ASSERT_EQ(reader_.take(), i + 1);
    DoorbellReader::clear(flag);
  }
}

TEST_F(DoorbellTest, AFullRingHoldsOneEntryPerQueue) {
  for (uint32_t i = 0; i < kEntries; ++i) poster_.ring(flags_[i], i + 1);
  for (uint32_t i = 0; i < kEntries; ++i) poster_.ring(flags_[i], i + 1);
  for (uint32_t i = 0; i < kEntries; ++i) ASSERT_EQ(reader_.take(), i + 1);
  EXPECT_EQ(reader_.take(), 0u);
}

TEST_F(DoorbellTest, TellsWhenTheEngineSleeps) {
  EXPECT_FALSE(poster_.ring(flags_[0], 1));
  reader_.set_sleeping(true);
  EXPECT_TRUE(poster_.ring(flags_[1], 2));
  EXPECT_FALSE(poster_.ring(flags_[1], 2)) << "the thread that entered the queue wakes the engine";
  reader_.set_sleeping(false);
  EXPECT_FALSE(poster_.ring(flags_[2], 3));
}

TEST_F(DoorbellTest, HostileContentsAreOnlyTokens) {
  auto* header = reinterpret_cast<DoorbellHeader*>(memory());
  auto* slots = reinterpret_cast<std::atomic<uint32_t>*>(memory() + sizeof(DoorbellHeader));
  header->head.store(0xfffffff0);
  for (uint32_t i = 0; i < kEntries; ++i) slots[i].store(0xdead0000 + i);
  for (uint32_t i = 0; i < kEntries; ++i) ASSERT_EQ(reader_.take(), 0xdead0000 + i);
  EXPECT_EQ(reader_.take(), 0u) << "one token per slot and round, with any value of `head`";
  // A correct poster continues at the current `head`; the engine finds its token within one round of the ring.
  header->head.store(0);
  poster_.ring(flags_[0], 5);
  EXPECT_EQ(reader_.take(), 5u);
}

/// Several threads post to the same queues. The engine finally sees every value that was published before a ring().
TEST_F(DoorbellTest, NoPostIsMissedWithManyPosters) {
  constexpr uint32_t kQueues = 4;
  constexpr uint32_t kPosters = 3;
  constexpr uint32_t kPosts = 5000;
  std::array<std::atomic<uint32_t>, kQueues> posted{};  // stands for the send queue's producer index
  std::vector<std::thread> posters;
  for (uint32_t t = 0; t < kPosters; ++t) {
    posters.emplace_back([&, t] {
      DoorbellPoster poster(memory(), kEntries);
      for (uint32_t i = 0; i < kPosts; ++i) {
        const uint32_t queue = (i + t) % kQueues;
        posted[queue].fetch_add(1, std::memory_order_release);
        poster.ring(flags_[queue], queue + 1);
        if (i % 16 == 0) std::this_thread::yield();
      }
    });
  }
  std::array<uint32_t, kQueues> seen{};
  uint32_t total = 0;
  while (total < kPosters * kPosts) {
    const uint32_t token = reader_.take();
    if (token == 0) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_LE(token, kQueues);
    DoorbellReader::clear(flags_[token - 1]);
    const uint32_t now = posted[token - 1].load(std::memory_order_acquire);
    total += now - seen[token - 1];
    seen[token - 1] = now;
  }
  for (auto& t : posters) t.join();
  EXPECT_EQ(total, kPosters * kPosts);
}

}  // namespace
}  // namespace uroce::queues
