#include "settings/table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <set>
#include <string>

#include "settings/names.h"

namespace uroce::settings {
namespace {

bool is_number(const Row& row) { return row.setting.kind == Kind::whole || row.setting.kind == Kind::real; }

Value number(const Row& row, double value) {
  return row.setting.kind == Kind::whole ? Value(static_cast<int64_t>(value)) : Value(value);
}

/// The options with one setting at `value`.
StackOptions with(const Row& row, const Value& value) {
  StackOptions options;
  row.stack.set(options, value);
  return options;
}

void expect_refused(const Row& row, double value) {
  const auto checked = check(with(row, number(row, value)));
  ASSERT_FALSE(checked.has_value()) << name(row.setting) << " " << value;
  EXPECT_EQ(checked.error().code, EINVAL);
  EXPECT_TRUE(checked.error().text.starts_with(name(row.setting) + " is ")) << checked.error().text;
}

TEST(SettingsTable, DefaultsPass) {
  EXPECT_TRUE(check(StackOptions{}).has_value());
  EXPECT_TRUE(check(EngineSettings{}).has_value());
}

TEST(SettingsTable, EachRowSaysWhatItIs) {
  std::set<std::string> names;
  for (const Row& row : rows()) {
    EXPECT_TRUE(row.stack) << name(row.setting);
    EXPECT_TRUE(names.insert(name(row.setting)).second) << name(row.setting);
    EXPECT_TRUE(row.setting.text.ends_with('.')) << name(row.setting);
    EXPECT_FALSE(help(row.setting).empty()) << name(row.setting);
    if (!is_number(row)) continue;
    EXPECT_LT(row.setting.least, row.setting.most) << name(row.setting);
  }
}

TEST(SettingsTable, EachNamesOneMember) {
  for (const Row& row : rows()) {
    if (!is_number(row)) continue;
    const StackOptions options = with(row, number(row, row.setting.most));
    for (const Row& other : rows()) {
      const bool is_same = &other == &row;
      EXPECT_EQ(other.stack.get(options) != other.stack.get(StackOptions{}), is_same)
          << name(row.setting) << " and " << name(other.setting);
      if (!other.engine) continue;
      EXPECT_EQ(other.engine.get(options.settings), other.stack.get(options)) << name(other.setting);
    }
  }
}

TEST(SettingsTable, RangesAreInclusive) {
  for (const Row& row : rows()) {
    if (!is_number(row)) continue;
    const Setting& setting = row.setting;
    EXPECT_TRUE(check(with(row, number(row, setting.least))).has_value()) << name(setting);
    EXPECT_TRUE(check(with(row, number(row, setting.most))).has_value()) << name(setting);
    const bool is_whole = setting.kind == Kind::whole;
    const double below = setting.least - (is_whole ? 1 : setting.least / 2);
    if (setting.least > 0 && (below != 0 || setting.zero.empty())) expect_refused(row, below);
    expect_refused(row, setting.most + (is_whole ? 1 : setting.most / 2));
    EXPECT_EQ(check(with(row, number(row, 0))).has_value(), setting.least <= 0 || !setting.zero.empty())
        << name(setting);
  }
}

TEST(SettingsTable, WhatIsNoNumberIsRefused) {
  for (const Row& row : rows()) {
    if (row.setting.kind != Kind::real) continue;
    expect_refused(row, std::numeric_limits<double>::quiet_NaN());
    expect_refused(row, std::numeric_limits<double>::infinity());
  }
}

TEST(SettingsTable, TheDeviceCannotAskItself) {
  EngineSettings settings;
  settings.congestion.algorithm = CongestionAlgorithm::device_default;
  EXPECT_EQ(check(settings).error().text,
            "congestion_control is \"device\"; it must be \"none\", \"dcqcn\" or \"swift\"");
  settings.congestion.algorithm = static_cast<CongestionAlgorithm>(99);
  EXPECT_EQ(check(settings).error().code, EINVAL);
  settings.congestion.algorithm = CongestionAlgorithm::swift;
  EXPECT_TRUE(check(settings).has_value());
}

TEST(SettingsTable, APortsOwnValueGoesBeforeTheStacks) {
  for (const Row& row : rows()) {
    if (!row.port) continue;
    EXPECT_EQ(row.port.get(PortSettings{}), Value{}) << name(row.setting);
    const Value value = row.setting.kind == Kind::whole  ? number(row, row.setting.most)
                        : row.setting.kind == Kind::word ? Value(std::string(row.setting.words().back()))
                                                         : Value(std::string("192.0.2.254"));
    PortSettings own;
    row.port.set(own, value);
    EXPECT_EQ(row.stack.get(of_port(StackOptions{}, own)), value) << name(row.setting);
    EXPECT_NE(row.stack.get(StackOptions{}), value) << name(row.setting);
  }
}

}  // namespace
}  // namespace uroce::settings
