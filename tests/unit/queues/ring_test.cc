#include "queues/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"

namespace uroce::queues {
namespace {

constexpr uint32_t kEntries = 8;
constexpr uint32_t kStride = 64;

class RingTest : public testing::Test {
 protected:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  RingPlace place() { return RingPlace::at(reinterpret_cast<std::byte*>(memory_.data()), kEntries, kStride); }
  void put(RingProducer& p, uint64_t value) {
    std::memcpy(p.slot(), &value, sizeof value);
    p.publish(1);
  }
  uint64_t get(RingConsumer& c) {
    uint64_t value;
    std::memcpy(&value, c.slot(), sizeof value);
    c.consume(1);
    return value;
  }

  std::vector<Line> memory_ = std::vector<Line>(ring_bytes(kEntries, kStride) / sizeof(Line));
};

TEST_F(RingTest, StartsEmptyWithAllRoom) {
  RingProducer p(place());
  RingConsumer c(place());
  EXPECT_EQ(p.room(), kEntries);
  EXPECT_EQ(c.available(), 0u);
}

TEST_F(RingTest, FillsToItsLastSlotAndNoFurther) {
  RingProducer p(place());
  RingConsumer c(place());
  for (uint64_t i = 0; i < kEntries; ++i) put(p, i);
  EXPECT_EQ(p.room(), 0u);
  EXPECT_EQ(c.available(), kEntries);
  for (uint64_t i = 0; i < kEntries; ++i) EXPECT_EQ(get(c), i);
  EXPECT_EQ(p.room(), kEntries);
  EXPECT_EQ(c.available(), 0u);
}

TEST_F(RingTest, SlotsAheadAreThoseThatAConsumerFindsNext) {
  RingProducer p(place());
  RingConsumer c(place());
  for (uint32_t i = 0; i < 3; ++i) std::memcpy(p.slot(i), &i, sizeof i);
  p.publish(3);
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t value;
    std::memcpy(&value, c.slot(i), sizeof value);
    EXPECT_EQ(value, i);
  }
}

TEST_F(RingTest, AdvanceKeepsSlotsFromTheProducerUntilMirrored) {
  RingProducer p(place());
  RingConsumer c(place());
  for (uint64_t i = 0; i < 4; ++i) put(p, i);
  c.advance(3);
  EXPECT_EQ(c.available(), 1u);
  EXPECT_EQ(p.room(), kEntries - 4);
  c.mirror(2);
  EXPECT_EQ(p.room(), kEntries - 2);
  EXPECT_EQ(c.next(), 3u);
}

/// Moves both ends to just below 2^32 without four thousand million steps.
TEST_F(RingTest, IndicesWrapAt32Bits) {
  RingProducer p(place());
  RingConsumer c(place());
  const uint32_t jump = UINT32_MAX - 2;
  p.publish(jump);
  c.consume(jump);
  EXPECT_EQ(p.room(), kEntries);
  EXPECT_EQ(c.available(), 0u);
  for (uint64_t i = 0; i < 4 * kEntries; ++i) {
    put(p, i);
    put(p, ~i);
    ASSERT_EQ(p.room(), kEntries - 2);
    ASSERT_EQ(c.available(), 2u);
    ASSERT_EQ(get(c), i);
    ASSERT_EQ(get(c), ~i);
  }
  EXPECT_LT(p.next(), jump);
  for (uint64_t i = 0; i < kEntries; ++i) put(p, i);
  EXPECT_EQ(p.room(), 0u);
  EXPECT_EQ(c.available(), kEntries);
}

TEST_F(RingTest, AWrongProducerIndexGivesAtMostTheRing) {
  RingConsumer c(place());
  for (uint32_t lie : {kEntries + 1, 0x80000000u, UINT32_MAX}) {
    place().header->producer.store(lie);
    EXPECT_EQ(c.available(), kEntries);
  }
  c.advance(5);
  place().header->producer.store(3);  // went backwards
  EXPECT_EQ(c.available(), kEntries);
}

TEST_F(RingTest, AWrongConsumerIndexGivesNoRoom) {
  RingProducer p(place());
  for (uint64_t i = 0; i < 4; ++i) put(p, i);
  for (uint32_t lie : {5u, 0x80000000u, UINT32_MAX - 100}) {
    place().header->consumer.store(lie);
    EXPECT_EQ(p.room(), 0u) << lie;
  }
  place().header->consumer.store(4);
  EXPECT_EQ(p.room(), kEntries);
}

TEST_F(RingTest, SlotsAreInTheRingForAnyIndex) {
  Random random(5);
  const RingPlace ring = place();
  for (int i = 0; i < 1000; ++i) {
    const std::byte* slot = ring.slot(static_cast<uint32_t>(random.next()));
    ASSERT_GE(slot, ring.slot(0));
    ASSERT_LE(slot + kStride, ring.slot(0) + std::size_t{kEntries} * kStride);
  }
}

TEST_F(RingTest, OwnIndexIsNotReadBackFromSharedMemory) {
  RingProducer p(place());
  RingConsumer c(place());
  put(p, 1);
  place().header->producer.store(77);
  put(p, 2);
  EXPECT_EQ(place().header->producer.load(), 2u);
  place().header->consumer.store(99);
  EXPECT_EQ(get(c), 1u);
  EXPECT_EQ(place().header->consumer.load(), 1u);
}

TEST_F(RingTest, TwoThreadsPassEveryValueInOrder) {
  constexpr uint64_t kCount = 20000;
  std::thread producer([this] {
    RingProducer p(place());
    for (uint64_t i = 0; i < kCount;) {
      if (p.room() == 0) {
        std::this_thread::yield();
        continue;
      }
      put(p, i++);
    }
  });
  RingConsumer c(place());
  for (uint64_t i = 0; i < kCount;) {
    if (c.available() == 0) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(get(c), i++);
  }
  producer.join();
}

}  // namespace
}  // namespace uroce::queues
