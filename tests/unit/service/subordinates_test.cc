#include "service/subordinates.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace uroce::service {
namespace {

class SubordinatesTest : public testing::Test {
 protected:
  ~SubordinatesTest() override { unlink(path_.c_str()); }
  void write(const std::string& text) {
    unlink(path_.c_str());
    std::ofstream(path_) << text;
  }
  uint32_t owner(uint32_t uid) { return subordinates_.user_of(uid, SubordinatesAre::charged_to_owner); }
  uint32_t tenant(uint32_t uid) { return subordinates_.user_of(uid, SubordinatesAre::tenants); }

  const std::string path_ = testing::TempDir() + "uroce-subuid-" + std::to_string(getpid());
  int asked_ = 0;
  Subordinates subordinates_{path_, [this](const std::string& name) -> std::optional<uint32_t> {
                               ++asked_;
                               return name == "alice" ? std::optional(1001u) : std::nullopt;
                             }};
};

TEST_F(SubordinatesTest, WithoutAFileEachUidIsAUser) {
  for (const uint32_t uid : {0u, 1001u, 100'001u, UINT32_MAX}) EXPECT_EQ(owner(uid), uid);
}

TEST_F(SubordinatesTest, ARangeIsItsOwners) {
  write("alice:100000:65536\n1002:165536:65536\nnobody-known:300000:10\n");
  EXPECT_EQ(owner(99'999), 99'999u);
  for (const uint32_t uid : {100'000u, 100'001u, 165'535u}) EXPECT_EQ(owner(uid), 1001u);
  for (const uint32_t uid : {165'536u, 231'071u}) EXPECT_EQ(owner(uid), 1002u);
  EXPECT_EQ(owner(231'072), 231'072u);
  EXPECT_EQ(owner(300'009), 300'000u) << "one user, though nobody knows it";
  EXPECT_EQ(owner(1001), 1001u);
  EXPECT_EQ(owner(0), 0u);
  EXPECT_EQ(asked_, 2) << "once for each name";
}

TEST_F(SubordinatesTest, OnAHostOfTenantsARangeIsAUser) {
  write("alice:100000:65536\nkubelet:1000000:262144\n");
  EXPECT_EQ(tenant(100'000), 100'000u);
  EXPECT_EQ(tenant(165'535), 100'000u);
  EXPECT_EQ(tenant(1'000'000 + 65'535), 1'000'000u);
  EXPECT_EQ(tenant(1'000'000 + 65'536), 1'000'000u + 65'536);
  EXPECT_EQ(tenant(1001), 1001u);
  EXPECT_EQ(asked_, 0);
}

TEST_F(SubordinatesTest, ReadsTheFileAgainWhenItChanges) {
  write("alice:100000:65536\n");
  EXPECT_EQ(owner(100'001), 1001u);
  write("1002:100000:65536\n");
  EXPECT_EQ(owner(100'001), 1002u);
  unlink(path_.c_str());
  EXPECT_EQ(owner(100'001), 100'001u);
}

TEST_F(SubordinatesTest, LinesThatSayNothingAreLeftOut) {
  write("\nalice\nalice:1\nalice:x:5\nalice:5:\nalice:-5:5\nalice:7:0\n:400000:5\nalice:4294967295:9\n2000:2000:9\n");
  EXPECT_EQ(owner(7), 7u);
  EXPECT_EQ(owner(5), 5u) << "no range goes on after the last uid";
  EXPECT_EQ(owner(UINT32_MAX), 1001u);
  EXPECT_EQ(owner(400'001), 400'000u);
  EXPECT_EQ(owner(2000), 2000u) << "its own owner";
  EXPECT_EQ(owner(2001), 2000u);
}

TEST_F(SubordinatesTest, OwnersThatOwnEachOtherAreNoEndlessQuestion) {
  write("2000:3000:1\n3000:2000:1\n");
  EXPECT_TRUE(owner(2000) == 2000 || owner(2000) == 3000);
}

TEST_F(SubordinatesTest, HasABound) {
  std::string text;
  for (std::size_t i = 0; i <= Subordinates::kMostRanges; ++i) text += "1002:" + std::to_string(100'000 + i) + ":1\n";
  write(text);
  EXPECT_EQ(owner(100'000 + Subordinates::kMostRanges - 1), 1002u);
  EXPECT_EQ(owner(100'000 + Subordinates::kMostRanges), 100'000u + Subordinates::kMostRanges);
}

}  // namespace
}  // namespace uroce::service
