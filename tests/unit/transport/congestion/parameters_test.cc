#include "transport/congestion/parameters.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <set>
#include <string>

namespace uroce::transport {
namespace {

// Settings with one parameter at `value`.
CongestionSettings with(const CongestionParameter& one, double value) {
  CongestionSettings settings;
  if (one.whole != nullptr) {
    one.whole(settings) = static_cast<uint32_t>(value);
  } else {
    one.real(settings) = value;
  }
  return settings;
}

void expect_refused(const CongestionParameter& one, double value) {
  const auto checked = check_congestion(with(one, value));
  ASSERT_FALSE(checked.has_value()) << one.name << " " << value;
  EXPECT_EQ(checked.error().code, EINVAL);
  const std::string name = std::string(one.algorithm) + "." + std::string(one.name);
  EXPECT_NE(checked.error().text.find(name), std::string::npos) << checked.error().text;
}

TEST(CongestionParameters, DefaultsPass) { EXPECT_TRUE(check_congestion({}).has_value()); }

TEST(CongestionParameters, EachNamesOneMember) {
  std::set<std::string> names;
  std::set<const void*> members;
  CongestionSettings settings;
  for (const CongestionParameter& one : congestion_parameters()) {
    EXPECT_NE(one.whole != nullptr, one.real != nullptr) << one.name;
    EXPECT_TRUE(names.insert(std::string(one.algorithm) + "." + std::string(one.name)).second) << one.name;
    const void* member = one.whole != nullptr ? static_cast<const void*>(&one.whole(settings)) : &one.real(settings);
    EXPECT_TRUE(members.insert(member).second) << one.name << " stands for another's member";
    EXPECT_LT(one.least, one.most) << one.name;
  }
}

TEST(CongestionParameters, RangesAreInclusive) {
  for (const CongestionParameter& one : congestion_parameters()) {
    EXPECT_TRUE(check_congestion(with(one, one.least)).has_value()) << one.name;
    EXPECT_TRUE(check_congestion(with(one, one.most)).has_value()) << one.name;
    const double step = one.whole != nullptr ? 1 : one.least / 2;
    if (one.least > 0) expect_refused(one, one.least - step);
    expect_refused(one, one.most + (one.whole != nullptr ? 1 : one.most / 2));
  }
}

TEST(CongestionParameters, WhatIsNoNumberIsRefused) {
  for (const CongestionParameter& one : congestion_parameters()) {
    if (one.real == nullptr) continue;
    expect_refused(one, std::numeric_limits<double>::quiet_NaN());
    expect_refused(one, std::numeric_limits<double>::infinity());
  }
}

TEST(CongestionParameters, TheAlgorithmOfTheDeviceMustBeNamed) {
  CongestionSettings settings;
  settings.algorithm = CongestionAlgorithm::device_default;
  EXPECT_FALSE(check_congestion(settings).has_value()) << "the device cannot ask itself";
  settings.algorithm = static_cast<CongestionAlgorithm>(99);
  const auto checked = check_congestion(settings);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, EINVAL);
  settings.algorithm = CongestionAlgorithm::swift;
  EXPECT_TRUE(check_congestion(settings).has_value());
}

}  // namespace
}  // namespace uroce::transport
