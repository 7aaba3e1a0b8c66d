#include "validate/regions.h"

#include <gtest/gtest.h>

namespace uroce::validate {
namespace {

constexpr int kThisDevice = 0, kOtherDevice = 0, kThisDomain = 0, kOtherDomain = 0;
constexpr Owner kOwner{&kThisDevice, &kThisDomain};

class ValidateRegions : public testing::Test {
 protected:
  ValidateRegions() {
    regions_.add(
        {&kThisDevice, 5},
        {.domain = &kThisDomain, .base = 1000, .length = 100, .in_memory = true, .memory = 70000, .local_write = true});
    regions_.add({&kThisDevice, 6}, {.domain = &kThisDomain, .base = 0, .length = 100});
  }
  std::optional<Misuse> check(const Sge& sge, const Owner& owner = kOwner, bool written = true) {
    const auto found = regions_.check(sge, owner, written, "entry 0");
    return found ? std::optional(found->misuse) : std::nullopt;
  }
  Regions regions_;
};

TEST_F(ValidateRegions, EntriesInsideHaveNoFault) {
  EXPECT_EQ(check({1000, 100, 5}), std::nullopt);
  EXPECT_EQ(check({1099, 1, 5}), std::nullopt);
  EXPECT_EQ(check({0, 0, 99}), std::nullopt) << "it names no byte";
  EXPECT_EQ(regions_.find({&kThisDevice, 5})->host(1010), 70010u);
}

TEST_F(ValidateRegions, EntriesOutside) {
  for (const Sge& sge : {Sge{999, 1, 5}, Sge{1100, 1, 5}, Sge{1099, 2, 5}, Sge{UINT64_MAX, 2, 5}}) {
    EXPECT_EQ(check(sge), Misuse::outside_region) << sge.addr;
  }
  EXPECT_EQ(regions_.check({1099, 2, 5}, kOwner, true, "entry 0")->text,
            "entry 0 names 2 bytes at 0x44b with lkey 0x5, but that region has 100 bytes from 0x3e8 on");
}

TEST_F(ValidateRegions, KeysOfOthers) {
  EXPECT_EQ(check({1000, 1, 7}), Misuse::unregistered);
  EXPECT_EQ(check({1000, 1, 5}, {&kOtherDevice, &kThisDomain}), Misuse::unregistered);
  EXPECT_EQ(check({1000, 1, 5}, {&kThisDevice, &kOtherDomain}), Misuse::foreign_region);
}

TEST_F(ValidateRegions, RightToWrite) {
  EXPECT_EQ(check({0, 1, 6}), Misuse::no_local_write);
  EXPECT_EQ(check({0, 1, 6}, kOwner, false), std::nullopt);
}

TEST_F(ValidateRegions, KeysThatWent) {
  regions_.remove({&kThisDevice, 5});
  EXPECT_EQ(check({1000, 1, 5}), Misuse::deregistered);
  regions_.add({&kThisDevice, 5}, {.domain = &kThisDomain, .base = 1000, .length = 100, .local_write = true});
  EXPECT_EQ(check({1000, 1, 5}), std::nullopt);
}

}  // namespace
}  // namespace uroce::validate
