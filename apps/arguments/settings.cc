#include "arguments/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace uroce::arguments {

namespace {

using settings::Kind;
using settings::Setting;
using settings::Value;

/// The option takes a 0 that is next to the range. Any other stands for the default, as leaving the option out does.
bool takes_zero(const Setting& setting) { return !setting.zero.empty() && setting.least == 1; }
double least_of(const Setting& setting) { return takes_zero(setting) ? 0 : setting.least; }

std::string list_of(const Setting& setting, const std::string& by_default) {
  const auto words = setting.words();
  std::string out;
  for (const std::string_view& word : words) {
    if (&word != &words.front()) out += &word == &words.back() ? " or " : ", ";
    out += word;
    if (word == by_default) out += " (default)";
  }
  return out;
}

/// The text has nothing of this machine, because manual pages are made of it.
std::string help_of(const Setting& setting, const std::string& by_default) {
  std::string out(settings::help(setting));
  if (!setting.unit.empty()) out += fmt::format(", {}", setting.unit);
  if (setting.kind == Kind::truth) return out;
  if (setting.kind == Kind::word) return fmt::format("{}: {}", out, list_of(setting, by_default));
  if (setting.kind == Kind::machine_word) {
    return fmt::format("{}: {} (default), which takes the fastest, or one that --version shows", out, by_default);
  }
  if (takes_zero(setting)) return fmt::format("{}; 0 for {}", out, setting.zero);
  if (!setting.by_default.empty()) return fmt::format("{} (default: {})", out, setting.by_default);
  return by_default.empty() ? out : fmt::format("{} (default: {})", out, by_default);
}

std::string shown_of(const Setting& setting) {
  switch (setting.kind) {
    case Kind::whole:
    case Kind::real: return fmt::format("{}..{}", least_of(setting), setting.most);
    case Kind::word: return "WORD";
    case Kind::machine_word: return "NAME";
    case Kind::truth:
    case Kind::text: break;
  }
  return "TEXT";
}

/// Sets `value`, or returns why not.
std::string read(const Setting& setting, const std::string& word, Value& value) {
  bool is_good = true;
  if (setting.kind == Kind::whole) {
    const auto number = whole_of(word);
    value = static_cast<int64_t>(number.value_or(0));
    is_good = number && settings::allows(setting, value) && (*number != 0 || least_of(setting) == 0);
  } else if (setting.kind == Kind::real) {
    const auto number = real_of(word);
    value = number.value_or(0);
    is_good = number && settings::allows(setting, value);
  } else if (setting.kind == Kind::truth) {
    value = word == "true";
  } else {
    value = word;
    is_good = settings::allows(setting, value);
  }
  if (is_good) return {};
  if (setting.words != nullptr) return fmt::format("'{}' is none of {}", word, fmt::join(setting.words(), ", "));
  return fmt::format("'{}' is no {}number from {} to {}", word, setting.kind == Kind::whole ? "whole " : "",
                     least_of(setting), setting.most);
}

}  // namespace

Option add_word(Command& program, const Setting& setting, const std::string& by_default, const Take& take) {
  const std::string names(setting.option);
  const std::string help = help_of(setting, by_default);
  if (setting.kind == Kind::truth) return program.flag(names, take, help);
  return program.value(names, take, help).shown_as(shown_of(setting));
}

Option add_setting(Command& program, const Setting& setting, const std::string& by_default,
                   const std::function<void(const Value&)>& set) {
  const auto take = [&setting, set](const std::string& word) {
    Value value;
    std::string fault = read(setting, word, value);
    if (fault.empty()) set(value);
    return fault;
  };
  return add_word(program, setting, by_default, take);
}

void add_settings(Command& program, unsigned which, StackOptions& to) {
  for (const settings::Row& row : settings::rows()) {
    if (row.setting.option.empty() || (row.setting.programs & which) == 0) continue;
    const std::string by_default = settings::plain_text_of(row.stack.get(to));
    add_setting(program, row.setting, by_default, [&row, &to](const Value& value) { row.stack.set(to, value); });
  }
}

}  // namespace uroce::arguments
