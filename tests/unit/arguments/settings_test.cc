// The options of the settings of the table, as every program that has some declares them.
#include "arguments/settings.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace uroce::arguments {
namespace {

using settings::Kind;
using settings::Row;
using settings::Value;

constexpr unsigned kPrograms[] = {settings::kPerf, settings::kNvmf};

std::optional<EarlyExit> parse(unsigned which, const std::vector<std::string>& words, StackOptions& to) {
  Program program("name", "summary", "name", "; advice");
  add_settings(program, which, to);
  return program.parse(words);
}

void expect_refused(unsigned which, const Row& row, const std::string& word) {
  StackOptions options;
  const auto exit = parse(which, {std::string(row.setting.option), word}, options);
  ASSERT_TRUE(exit) << row.setting.option << " " << word;
  EXPECT_EQ(exit->code, 2);
  EXPECT_NE(exit->text.find(row.setting.option), std::string::npos) << exit->text;
}

void expect_taken(unsigned which, const Row& row, const std::string& word, const Value& value) {
  StackOptions options;
  EXPECT_FALSE(parse(which, {std::string(row.setting.option), word}, options)) << row.setting.option << " " << word;
  EXPECT_EQ(row.stack.get(options), value) << row.setting.option << " " << word;
}

void expect_range(unsigned which, const Row& row) {
  const auto least = static_cast<int64_t>(row.setting.least), most = static_cast<int64_t>(row.setting.most);
  expect_taken(which, row, std::to_string(least), least);
  expect_taken(which, row, std::to_string(most), most);
  expect_refused(which, row, std::to_string(most + 1));
  expect_refused(which, row, "many");
  if (least > 1) expect_refused(which, row, std::to_string(least - 1));
}

void expect_flag(unsigned which, const Row& row) {
  const std::string option(row.setting.option);
  for (const auto& [word, value] : {std::pair(option, true), {option + "=true", true}, {option + "=false", false}}) {
    StackOptions options;
    row.stack.set(options, !value);
    EXPECT_FALSE(parse(which, {word}, options)) << word;
    EXPECT_EQ(row.stack.get(options), Value(value)) << word;
  }
  StackOptions options;
  const auto exit = parse(which, {option + "=maybe"}, options);
  ASSERT_TRUE(exit) << option;
  EXPECT_EQ(exit->code, 2);
  EXPECT_NE(exit->text.find("'maybe' is neither true nor false"), std::string::npos) << exit->text;
}

TEST(SettingOptions, HaveTheRangesOfTheTableInEveryProgram) {
  for (const unsigned which : kPrograms) {
    for (const Row& row : settings::rows()) {
      if (row.setting.option.empty() || (row.setting.programs & which) == 0) continue;
      if (row.setting.kind == Kind::whole) expect_range(which, row);
      if (row.setting.kind == Kind::real) expect_refused(which, row, std::to_string(row.setting.most * 2));
      if (row.setting.kind == Kind::word) {
        const std::string last(row.setting.words().back());
        expect_taken(which, row, last, last);
      }
      if (row.setting.kind == Kind::truth) expect_flag(which, row);
      if (row.setting.words != nullptr) expect_refused(which, row, "nonsense");
    }
  }
}

TEST(SettingOptions, StandInHelpWithTheirRange) {
  for (const unsigned which : kPrograms) {
    StackOptions options;
    const std::string help = parse(which, {"--help"}, options)->text;
    for (const Row& row : settings::rows()) {
      const bool has = !row.setting.option.empty() && (row.setting.programs & which) != 0;
      const std::string option = "  " + std::string(row.setting.option) + " ";
      if (row.setting.option.empty()) continue;
      EXPECT_EQ(help.find(option) != std::string::npos, has) << help;
    }
    EXPECT_NE(help.find("--port-mtu 340..9216 "), std::string::npos) << help;
    EXPECT_NE(help.find("--vlan 0..4094 "), std::string::npos) << help;
  }
}

}  // namespace
}  // namespace uroce::arguments
