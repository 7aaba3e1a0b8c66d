// libibverbs' private table, and librdmacm's errors for a table of another version.
#include "dropin/rdmacm/verbs_table.h"

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace uroce::dropin::rdmacm {
namespace {

TEST(VerbsTable, OfTheSameUroceIsTaken) {
  EXPECT_TRUE(check(verbs_table()).has_value());
  EXPECT_NE(verbs_table().open_connection_manager, nullptr);
  EXPECT_NE(verbs_table().create_qp, nullptr);
}

TEST(VerbsTable, OfAnotherUroceIsRefusedWithBothVersions) {
  VerbsTable older = verbs_table();
  older.version = 0;
  const auto refused = check(older);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ELIBACC);
  EXPECT_NE(refused.error().text.find("needs version 5 "), std::string::npos) << refused.error().text;
  EXPECT_NE(refused.error().text.find("has version 0 "), std::string::npos) << refused.error().text;
}

TEST(VerbsTable, OfOtherSizesIsRefused) {
  VerbsTable other = verbs_table();
  other.size -= 8;
  EXPECT_FALSE(check(other).has_value());
  other = verbs_table();
  other.step_size += 8;
  EXPECT_FALSE(check(other).has_value());
}

TEST(VerbsTable, OfAnotherCxxLibraryIsRefused) {
  VerbsTable other = verbs_table();
  other.cxx -= 1;
  const auto refused = check(other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().text.find("C++ library of " + std::to_string(other.cxx)), std::string::npos)
      << refused.error().text;
}

}  // namespace
}  // namespace uroce::dropin::rdmacm
