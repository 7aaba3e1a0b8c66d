#include "base/comma_list.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

using Parts = std::vector<std::string_view>;

TEST(CommaList, EveryCommaEndsAPart) {
  EXPECT_EQ(split_at_commas(""), (Parts{""}));
  EXPECT_EQ(split_at_commas("a"), (Parts{"a"}));
  EXPECT_EQ(split_at_commas("a, b,c=1"), (Parts{"a", " b", "c=1"}));
  EXPECT_EQ(split_at_commas(",a,,b,"), (Parts{"", "a", "", "b", ""}));
}

TEST(CommaList, ACommaMayEndAListOfItems) {
  EXPECT_EQ(items_of_list(""), Parts{});
  EXPECT_EQ(items_of_list("a,b"), (Parts{"a", "b"}));
  EXPECT_EQ(items_of_list("a,b,"), (Parts{"a", "b"}));
  EXPECT_EQ(items_of_list(","), (Parts{""}));
  EXPECT_EQ(items_of_list("a,,"), (Parts{"a", ""}));
}

}  // namespace
}  // namespace uroce
