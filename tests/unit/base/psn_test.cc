#include "base/psn.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace uroce {
namespace {

TEST(Psn, WrapsAt24Bits) {
  EXPECT_EQ(Psn(0x1000005), Psn(5));
  EXPECT_EQ(Psn(0xffffff) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
  Psn psn(0xfffffe);
  EXPECT_EQ(++psn, Psn(0xffffff));
  EXPECT_EQ(psn += 3, Psn(2));
}

TEST(Psn, DistanceIsRightAcrossTheWrap) {
  for (const uint32_t base : {0u, 1u, 0x7fffffu, 0x800000u, 0xfffff0u, 0xffffffu}) {
    for (const int32_t step : {0, 1, 17, 0x7ffffe, 0x7fffff}) {
      const Psn ahead = Psn(base) + static_cast<uint32_t>(step);
      EXPECT_EQ(distance(ahead, Psn(base)), step) << base;
      EXPECT_EQ(distance(Psn(base), ahead), -step) << base;
    }
    // A PSN half of the number space away counts as older, in both directions.
    EXPECT_EQ(distance(Psn(base) + 0x800000, Psn(base)), -0x800000) << base;
    EXPECT_EQ(distance(Psn(base), Psn(base) + 0x800000), -0x800000) << base;
  }
}

template <class T>
concept Ordered = requires(T a, T b) { a < b; };
static_assert(!Ordered<Psn>, "PSNs are compared by distance()");
static_assert(!std::is_convertible_v<uint32_t, Psn> && !std::is_convertible_v<Psn, uint32_t>);

}  // namespace
}  // namespace uroce
