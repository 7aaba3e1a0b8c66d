#include "wire/drop.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

namespace uroce::wire {
namespace {

TEST(Drop, EveryReasonHasItsOwnLowerCaseName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kDropCount; ++i) {
    const std::string_view n = name(static_cast<Drop>(i));
    EXPECT_FALSE(n.empty());
    for (const char c : n) EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) != 0 || c == '_') << n;
    EXPECT_TRUE(names.insert(n).second) << n;
  }
  EXPECT_EQ(name(Drop::icrc), "icrc");
  EXPECT_EQ(name(Drop::message_broken), "message_broken");
  EXPECT_EQ(name(Drop::port_down), "port_down");
  EXPECT_EQ(name(Drop::count), "invalid");
}

}  // namespace
}  // namespace uroce::wire
