#include "settings/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>

namespace uroce::settings {

namespace {

bool is_within(const Setting& setting, double value) {
  if (value == 0 && !setting.zero.empty()) return true;
  return value >= setting.least && value <= setting.most;  // false for a NaN
}

std::string or_zero(const Setting& setting) {
  return setting.zero.empty() ? std::string() : fmt::format(", or 0 for {}", setting.zero);
}

/// `"none", "dcqcn" or "swift"`
std::string alternatives(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view& word : words) {
    if (&word != &words.front()) out += &word == &words.back() ? " or " : ", ";
    out += in_quotes(word);
  }
  return out;
}

}  // namespace

std::string name(const Setting& setting) {
  const bool plain = setting.table == "engines" || setting.table == "device";
  return plain ? std::string(setting.key) : fmt::format("{}.{}", setting.table, setting.key);
}

std::string needed(const Setting& setting) {
  switch (setting.kind) {
    case Kind::whole: return fmt::format("an integer from {} to {}{}", setting.least, setting.most, or_zero(setting));
    case Kind::real: return fmt::format("a number from {} to {}{}", setting.least, setting.most, or_zero(setting));
    case Kind::truth: return "true or false";
    case Kind::word: return fmt::format("one of \"{}\"", fmt::join(setting.words(), "\", \""));
    case Kind::machine_word:
      return fmt::format("one of \"{}\", which this CPU has", fmt::join(setting.words(), "\", \""));
    case Kind::text: break;
  }
  return fmt::format("{} as a string", setting.values);
}

std::string range(const Setting& setting) {
  switch (setting.kind) {
    case Kind::whole:
    case Kind::real: return fmt::format("{} to {}", setting.least, setting.most);
    case Kind::truth: return "true, false";
    case Kind::word: return fmt::format("\"{}\"", fmt::join(setting.words(), "\", \""));
    case Kind::machine_word:
    case Kind::text: break;
  }
  return std::string(setting.values);
}

bool allows(const Setting& setting, const Value& value) {
  const auto is_word = [&] {
    const auto words = setting.words();
    return std::ranges::find(words, std::get<std::string>(value)) != words.end();
  };
  switch (setting.kind) {
    case Kind::whole: return is_within(setting, static_cast<double>(std::get<int64_t>(value)));
    case Kind::real: return is_within(setting, std::get<double>(value));
    case Kind::word:
    case Kind::machine_word: return is_word();
    case Kind::truth:
    case Kind::text: break;
  }
  return true;
}

Result<void> check(const Setting& setting, const Value& value) {
  if (allows(setting, value)) return {};
  const std::string is = fmt::format("{} is {}; ", name(setting), text_of(value));
  if (setting.kind == Kind::machine_word) {
    return fail(EINVAL, fmt::format("{}on this CPU it must be one of {}", is, fmt::join(setting.words(), ", ")));
  }
  const bool has_words = setting.kind == Kind::word;
  return fail(EINVAL, fmt::format("{}it must be {}{}", is, has_words ? alternatives(setting.words()) : range(setting),
                                  or_zero(setting)));
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return in_quotes(*text);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) return fmt::to_string(*real);
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::to_string(*whole);
  return {};
}

std::string plain_text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : text_of(value);
}

std::string_view help(const Setting& setting) {
  const std::string_view text = setting.text.substr(0, setting.text.find(". "));
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace uroce::settings
