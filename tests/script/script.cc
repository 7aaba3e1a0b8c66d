#include "tests/script/script.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace uroce::test {

namespace {

std::optional<uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `+10us`, `~2ms`, `+0`: sign, whole number, unit.
bool parse_step(const std::string& word, ScriptLine& line) {
  if (word.size() < 2 || (word[0] != '+' && word[0] != '~')) return false;
  std::size_t digits = 1;
  while (digits < word.size() && word[digits] >= '0' && word[digits] <= '9') ++digits;
  const auto count = parse_number(std::string_view(word).substr(1, digits - 1));
  const std::string unit = word.substr(digits);
  if (!count) return false;
  int64_t scale = 0;
  if (unit == "ns" || (unit.empty() && *count == 0)) scale = 1;
  if (unit == "us") scale = 1'000;
  if (unit == "ms") scale = 1'000'000;
  if (unit == "s") scale = 1'000'000'000;
  if (scale == 0) return false;
  line.step = Nanos(static_cast<int64_t>(*count) * scale);
  line.within = word[0] == '~';
  return true;
}

ScriptLine parse_line(int number, const std::string& text) {
  ScriptLine line;
  line.number = number;
  line.text = text;
  std::istringstream in(text);
  std::string word;
  in >> word;
  if (word[0] == '+' || word[0] == '~') {
    if (!parse_step(word, line))
      throw ScriptError{number, fmt::format("'{}' is no time step; write +10us, +2ms or ~1s", word)};
    in >> word;
  }
  line.command = word;
  while (in >> word) line.words.push_back(word);
  return line;
}

}  // namespace

std::vector<Script> load_scripts(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ScriptError{0, fmt::format("cannot open {}", path)};
  return read_scripts(in, path);
}

std::vector<Script> read_scripts(std::istream& in, const std::string& path) {
  std::vector<Script> scripts;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    text.erase(std::min(text.find('#'), text.size()));
    text.erase(text.find_last_not_of(" \t\r") + 1);
    text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty()) continue;
    if (text.starts_with("==")) {
      const std::size_t name = text.find_first_not_of("= ");
      scripts.push_back({path, name == std::string::npos ? "" : text.substr(name), {}});
      continue;
    }
    if (scripts.empty()) throw ScriptError{number, "a section must start with '== name'"};
    scripts.back().lines.push_back(parse_line(number, text));
  }
  return scripts;
}

std::optional<uint64_t> Symbols::value(std::string_view expression) const {
  if (const auto number = parse_number(expression)) return number;
  const std::size_t sign = expression.find_first_of("+-");
  const auto symbol = values_.find(expression.substr(0, sign));
  if (symbol == values_.end()) return std::nullopt;
  if (sign == std::string_view::npos) return symbol->second;
  const auto offset = parse_number(expression.substr(sign + 1));
  if (!offset) return std::nullopt;
  return expression[sign] == '+' ? symbol->second + *offset : symbol->second - *offset;
}

std::string Symbols::substitute(const std::string& word) const {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return word;
  const auto number = value(std::string_view(word).substr(equals + 1));
  return number ? word.substr(0, equals + 1) + std::to_string(*number) : word;
}

Words::Words(const ScriptLine& line, const Symbols& symbols) : line_(line), symbols_(symbols) {
  for (const std::string& word : line.words) words_.push_back({word});
}

bool Words::flag(std::string_view name) {
  for (Word& word : words_) {
    if (!word.taken && word.text == name) return word.taken = true;
  }
  return false;
}

std::optional<std::string> Words::text(std::string_view key) {
  for (Word& word : words_) {
    if (word.taken || word.text.size() <= key.size() || !word.text.starts_with(key) || word.text[key.size()] != '=') {
      continue;
    }
    word.taken = true;
    return word.text.substr(key.size() + 1);
  }
  return std::nullopt;
}

std::optional<uint64_t> Words::number(std::string_view key) {
  const auto expression = text(key);
  if (!expression) return std::nullopt;
  const auto value = symbols_.value(*expression);
  if (!value) error(fmt::format("'{}' is neither a number nor a known name", *expression));
  return value;
}

std::string Words::bare() {
  for (Word& word : words_) {
    if (word.taken || word.text.find('=') != std::string::npos) continue;
    word.taken = true;
    return word.text;
  }
  return {};
}

void Words::done() const {
  for (const Word& word : words_) {
    if (!word.taken) error(fmt::format("'{}' is not understood here", word.text));
  }
}

void Words::error(const std::string& what) const { throw ScriptError{line_.number, what}; }

}  // namespace uroce::test
