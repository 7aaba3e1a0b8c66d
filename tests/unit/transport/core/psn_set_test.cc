#include "transport/core/psn_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace uroce::transport {
namespace {

TEST(PsnSet, HoldsWhatWasAdded) {
  PsnSet set;
  EXPECT_TRUE(set.empty());
  for (const uint32_t psn : {0u, 63u, 64u, 1023u, 0xffff00u}) set.add(Psn(psn));
  EXPECT_TRUE(set.has(Psn(63)));
  EXPECT_TRUE(set.has(Psn(1023)));
  EXPECT_FALSE(set.has(Psn(62)));
  EXPECT_EQ(set.count(), 5u);
  set.remove(Psn(63));
  EXPECT_FALSE(set.has(Psn(63)));
  set.clear();
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.count(), 0u);
}

TEST(PsnSet, FindsTheNextOneWithinTheRange) {
  PsnSet set;
  const Psn from(0xfffff0);
  EXPECT_EQ(set.next(from, PsnSet::kSize), PsnSet::kSize);
  set.add(from + 100);
  EXPECT_EQ(set.next(from, PsnSet::kSize), 100u);
  EXPECT_EQ(set.next(from, 100), 100u) << "none of the next 100";
  EXPECT_EQ(set.next(from, 101), 100u);
  EXPECT_EQ(set.next(from + 100, 5), 0u);
  EXPECT_EQ(set.next(from + 101, 900), 900u);
  EXPECT_EQ(set.next(from, 0), 0u);
}

TEST(PsnSet, FindsTheNextOneThatIsMissing) {
  PsnSet set;
  const Psn from(0xfffff0);
  for (uint32_t i = 0; i < 200; ++i) set.add(from + i);
  EXPECT_EQ(set.next(from, PsnSet::kSize, false), 200u);
  EXPECT_EQ(set.next(from, 150, false), 150u);
  set.remove(from + 70);
  EXPECT_EQ(set.next(from, PsnSet::kSize, false), 70u);
}

TEST(PsnSet, TakesOutARangeAcrossTheWrap) {
  PsnSet set;
  const Psn from(0xffffff - 100);
  for (uint32_t i = 0; i < PsnSet::kSize; ++i) set.add(from + i);
  set.remove_from(from + 10, 500);
  EXPECT_EQ(set.count(), PsnSet::kSize - 500);
  EXPECT_TRUE(set.has(from + 9));
  EXPECT_FALSE(set.has(from + 10));
  EXPECT_FALSE(set.has(from + 509));
  EXPECT_TRUE(set.has(from + 510));
  set.remove_from(from, PsnSet::kSize);
  EXPECT_TRUE(set.empty());
}

TEST(PsnSet, GivesSixtyFourBitsFromAnywhere) {
  PsnSet set;
  const Psn from(0xffffd0);
  set.add(from);
  set.add(from + 63);
  set.add(from + 64);
  EXPECT_EQ(set.bits_from(from), uint64_t{1} << 63 | 1);
  EXPECT_EQ(set.bits_from(from + 1), uint64_t{3} << 62);
}

// Against a set of the standard library, over windows that move on and wrap.
TEST(PsnSet, AgreesWithAPlainSet) {
  Random random(5);
  PsnSet set;
  std::set<uint32_t> plain;  // distances from `base`
  const Psn base(0xfffc00);
  for (int step = 0; step < 20'000; ++step) {
    const auto at = static_cast<uint32_t>(random.below(PsnSet::kSize));
    const auto n = static_cast<uint32_t>(random.below(PsnSet::kSize - at + 1));
    switch (random.below(5)) {
      case 0:
      case 1:
        set.add(base + at);
        plain.insert(at);
        break;
      case 2:
        set.remove(base + at);
        plain.erase(at);
        break;
      case 3: {
        const auto some = std::min(n, 20u);
        set.remove_from(base + at, some);
        plain.erase(plain.lower_bound(at), plain.lower_bound(at + some));
        break;
      }
      default: {
        const auto it = plain.lower_bound(at);
        const uint32_t expected = it == plain.end() ? n : std::min(n, *it - at);
        ASSERT_EQ(set.next(base + at, n), expected) << "from " << at << " within " << n;
        uint32_t missing = 0;
        while (missing < n && plain.contains(at + missing)) ++missing;
        ASSERT_EQ(set.next(base + at, n, false), missing) << "from " << at << " within " << n;
      }
    }
    ASSERT_EQ(set.count(), plain.size());
  }
}

}  // namespace
}  // namespace uroce::transport
