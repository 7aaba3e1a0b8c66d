#include <uroce/flags.h>

#include <gtest/gtest.h>

#include <cstdint>

namespace uroce {
namespace {

enum class Fruit : uint32_t { apple = 1, pear = 2, plum = 4, apple_and_pear = 3 };
using Fruits = Flags<Fruit>;
enum class Stone : uint32_t { flint = 1 };

template <class Set, class E>
concept CanTest = requires(Set set, E e) { set.has(e); };
static_assert(CanTest<Fruits, Fruit>);
static_assert(!CanTest<Fruits, Stone> && !CanTest<Fruits, int>, "another enum's flag must not compile");

TEST(Flags, SetOperations) {
  constexpr Fruits both = Fruit::apple | Fruit::plum;
  EXPECT_TRUE(both.has(Fruit::apple));
  EXPECT_FALSE(both.has(Fruit::pear));
  EXPECT_FALSE(both.has(Fruit::apple_and_pear)) << "all bits of an enumerator are needed";
  EXPECT_TRUE(both.has_any(Fruit::pear | Fruit::plum));
  EXPECT_FALSE(both.has_all(Fruit::pear | Fruit::plum));
  EXPECT_TRUE(both.has_all({}));
  EXPECT_FALSE(both.has_any({}));
  EXPECT_EQ(both.without(Fruit::plum), Fruits(Fruit::apple));
  EXPECT_EQ(both & Fruit::apple, Fruits(Fruit::apple));
  Fruits grown = both;
  grown |= Fruit::pear;
  EXPECT_EQ(grown.bits(), 7u);
  EXPECT_TRUE(Fruits{}.empty());
}

TEST(Flags, UnknownBitsOfAnAbiAreKept) { EXPECT_EQ(Fruits::from_bits(0x80000001).bits(), 0x80000001u); }

}  // namespace
}  // namespace uroce
