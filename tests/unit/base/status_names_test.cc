#include "base/status_names.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce {
namespace {

TEST(StatusNames, EachStatusHasOne) {
  std::set<std::string_view> names;
  std::set<WcStatus> statuses;
  for (const auto& [name, status] : kStatusNames) {
    EXPECT_EQ(status_name(status), name);
    names.insert(name);
    statuses.insert(status);
  }
  EXPECT_EQ(names.size(), kStatusNames.size());
  EXPECT_EQ(statuses.size(), kStatusNames.size());
}

TEST(StatusNames, OtherNumbersAreUnknown) {
  EXPECT_EQ(status_name(static_cast<WcStatus>(3)), "unknown status");
  EXPECT_EQ(status_name(static_cast<WcStatus>(255)), "unknown status");
}

}  // namespace
}  // namespace uroce
