#include "control/qpn_allocator.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

TEST(QpnAllocator, NumbersCarryTheEngineAndDifferInTheirSlots) {
  constexpr uint32_t kBits = 3, kSlots = 64, kEngine = 5;
  QpnAllocator qpns(kEngine, kBits, kSlots, 1);
  std::set<uint32_t> slots;
  for (uint32_t i = 0; i < kSlots; ++i) {
    const auto qpn = qpns.take();
    ASSERT_TRUE(qpn);
    EXPECT_LT(*qpn, 1u << 24);
    EXPECT_EQ(*qpn & 7, kEngine);
    EXPECT_TRUE(slots.insert((*qpn >> kBits) & (kSlots - 1)).second);
  }
  EXPECT_FALSE(qpns.take());
}

TEST(QpnAllocator, ANumberComesBackOnlyAfterAllGenerations) {
  QpnAllocator qpns(0, 0, 1u << 14, 7);  // 10 generation bits
  uint32_t last = 0;                     // of slot 5, none of whose generations is reserved
  for (uint32_t i = 0; i < 1u << 14; ++i) {
    const uint32_t qpn = *qpns.take();
    if (i == 5) last = qpn;
  }
  const uint32_t first = last;
  std::set<uint32_t> seen{last};
  for (uint32_t i = 1; i < 1u << 10; ++i) {
    qpns.give_back(last);
    last = *qpns.take();
    EXPECT_TRUE(seen.insert(last).second) << "after " << i;
  }
  qpns.give_back(last);
  EXPECT_EQ(*qpns.take(), first);
}

TEST(QpnAllocator, TheSlotThatRestedLongestComesFirst) {
  QpnAllocator qpns(0, 0, 4, 7);
  uint32_t taken[4];
  for (auto& qpn : taken) qpn = *qpns.take();
  qpns.give_back(taken[2]);
  qpns.give_back(taken[0]);
  EXPECT_EQ(*qpns.take() & 3, taken[2] & 3);
  EXPECT_EQ(*qpns.take() & 3, taken[0] & 3);
}

TEST(QpnAllocator, ReservedNumbersNeverCome) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    QpnAllocator qpns(0, 0, 2, seed);
    for (int i = 0; i < 100; ++i) {
      const uint32_t a = *qpns.take();
      EXPECT_GT(a, 1u);
      EXPECT_NE(a, 0xffffffu);
      qpns.give_back(a);
    }
  }
  // All other bits are slot bits: 0, 1 and 0xffffff have no other generation, so their slots stay unused.
#ifdef __SANITIZE_ADDRESS__
  constexpr uint32_t kIndexBits = 8;  // sixteen million numbers take half a minute
#else
  constexpr uint32_t kIndexBits = 0;
#endif
  constexpr uint32_t kSlots = 1u << (24 - kIndexBits), kLast = (1u << kIndexBits) - 1;
  uint32_t unused = 0;
  for (const uint32_t engine : std::set{0u, std::min(1u, kLast), kLast}) {
    QpnAllocator full(engine, kIndexBits, kSlots, 1);
    unused += kSlots;
    while (const auto qpn = full.take()) {
      ASSERT_TRUE(*qpn > 1 && *qpn < 0xffffff);
      --unused;
    }
  }
  EXPECT_EQ(unused, 3);
}

TEST(QpnAllocator, TheFirstGenerationIsRandomAndReplayable) {
  QpnAllocator a(0, 0, 256, 1), b(0, 0, 256, 2), again(0, 0, 256, 1);
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const uint32_t qpn = *a.take();
    different += qpn != *b.take() ? 1 : 0;
    EXPECT_EQ(qpn, *again.take());
  }
  EXPECT_GT(different, 95);
}

TEST(QpnAllocator, SlotsComeInASecretOrder) {
  const auto slots = [](uint64_t seed) {
    QpnAllocator qpns(0, 0, 256, seed);
    std::vector<uint32_t> order;
    for (int i = 0; i < 256; ++i) order.push_back(*qpns.take() & 0xff);
    return order;
  };
  const auto order = slots(1);
  EXPECT_NE(order, slots(2));
  int neighbours = 0;
  for (std::size_t i = 1; i < order.size(); ++i) neighbours += order[i] == order[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 10) << "a QPN does not tell the next one";
}

TEST(QpnAllocator, AnotherOneGoesOnWithItsNumbers) {
  constexpr uint32_t kSlots = 1u << 12;
  QpnAllocator first(1, 1, kSlots, 3);
  std::set<uint32_t> given;
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < 3 * kSlots; ++i) {
    const uint32_t qpn = *first.take();
    EXPECT_TRUE(given.insert(qpn).second);
    if (i % 1000 == 0) {
      kept.push_back(qpn);
    } else {
      first.give_back(qpn);
    }
  }
  QpnAllocator heir(1, 1, kSlots, 77);
  ASSERT_TRUE(heir.go_on_with(first.numbers()));
  for (const uint32_t qpn : kept) EXPECT_TRUE(heir.take(qpn));
  for (uint32_t i = 0; i < kSlots; ++i) {
    const uint32_t qpn = *heir.take();
    EXPECT_EQ(qpn, *first.take());
    EXPECT_TRUE(given.insert(qpn).second);
    heir.give_back(qpn);
    first.give_back(qpn);
  }
}

TEST(QpnAllocator, NumbersThatAreNoneOfItsSizeAreRefused) {
  QpnAllocator first(0, 0, 8, 3);
  for (int i = 0; i < 4; ++i) first.give_back(*first.take());
  const QpnNumbers good = first.numbers();
  QpnAllocator heir(0, 0, 8, 77);
  QpnNumbers bad = good;
  bad.uses.resize(9);
  EXPECT_FALSE(heir.go_on_with(bad));
  bad = good;
  bad.fresh = 9;
  EXPECT_FALSE(heir.go_on_with(bad));
  bad = good;
  bad.free.push_back(8);
  EXPECT_FALSE(heir.go_on_with(bad));
  bad.free.back() = bad.free.front();
  EXPECT_FALSE(heir.go_on_with(bad));
  EXPECT_TRUE(heir.go_on_with(good));
}

}  // namespace
}  // namespace uroce::control
