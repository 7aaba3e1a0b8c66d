#include "base/spsc_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace uroce {
namespace {

TEST(SpscRing, KeepsOrderAndRefusesWhenFull) {
  SpscRing<int> ring(3);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(ring.pop(), std::nullopt);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i)) << "a capacity of three is rounded up to four";
    int refused = 9;
    EXPECT_FALSE(ring.push(refused));
    EXPECT_EQ(refused, 9);
    EXPECT_FALSE(ring.empty());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ring.pop(), i);
    EXPECT_EQ(ring.pop(), std::nullopt);
  }
}

TEST(SpscRing, MovesElementsAndLeavesARefusedOneAlone) {
  SpscRing<std::unique_ptr<int>> ring(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  EXPECT_TRUE(ring.push(first));
  EXPECT_EQ(first, nullptr);
  EXPECT_FALSE(ring.push(second));
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(**ring.pop(), 1);
}

TEST(SpscRing, HandsOverEverythingBetweenTwoThreads) {
  constexpr uint64_t kCount = 200'000;
  SpscRing<uint64_t> ring(64);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount; ++i) {
      uint64_t value = i * 3;
      while (!ring.push(value)) std::this_thread::yield();
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    std::optional<uint64_t> value;
    while (!(value = ring.pop())) std::this_thread::yield();
    if (*value != i * 3) ++wrong;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace uroce
