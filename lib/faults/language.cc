#include "faults/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>

#include "faults/words.h"

namespace uroce::faults {

namespace {

constexpr std::size_t kLongestRule = 1024;

std::vector<std::string_view> split_at_blanks(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::string_view without_comment(std::string_view line) { return line.substr(0, line.find('#')); }

template <class Rows>
std::string names_of(const Rows& rows, std::string_view behind, Subjects subjects = kOfAll) {
  std::string out;
  for (const auto& row : rows) {
    if ((row.subjects & subjects) == 0) continue;
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", row.name, behind);
  }
  return out;
}

/// The words that may stand behind the action of a rule.
std::string words_of(Subject subject) {
  const std::string_view directions = subject == Subject::frames ? "rx, tx, both, " : "";
  return fmt::format("{}{}", directions, names_of(word_rows(), "=", bit_of(subject)));
}

std::unexpected<Error> refuse(std::string_view word, std::string_view why) {
  return fail(EINVAL, fmt::format("'{}': {}", word.substr(0, 64), why));
}

/// Reads the action and its value, and removes them from the words.
Result<const ActionRow*> read_action(std::span<const std::string_view>& words, Rule& rule) {
  const std::string_view name = words[0];
  const auto row = std::ranges::find(action_rows(), name, &ActionRow::name);
  if (row == action_rows().end()) {
    return refuse(name, fmt::format("a rule begins with its action: {}", names_of(action_rows(), "")));
  }
  rule.action = row->action;
  const auto of_calls = [](std::string_view word) { return word.starts_with("call=") || word.starts_with("program="); };
  if (row->subjects == kOfEvents) {
    rule.subject = Subject::events;
  } else if (row->subjects == kOfCompletions) {
    rule.subject = Subject::completions;
  } else if (row->subjects == kOfCalls ||
             (row->subjects == kOfFramesAndCalls && std::ranges::any_of(words, of_calls))) {
    rule.subject = Subject::calls;
  }
  words = words.subspan(1);
  if (row->value.empty()) return &*row;
  const bool is_there = !words.empty() && !words[0].contains('=') &&
                        std::ranges::none_of(kDirections, [&](const auto& one) { return one.first == words[0]; });
  if (!is_there) {
    if (row->value.starts_with('[')) return &*row;
    return refuse(name, fmt::format("the next word must be its {}", row->value));
  }
  if (auto read = row->read(words[0], rule); !read) return refuse(words[0], read.error().text);
  words = words.subspan(1);
  return &*row;
}

Result<void> read_word(std::string_view word, Rule& rule, std::vector<std::string_view>& seen) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const auto once = [&](std::string_view what) {
    const bool first = std::ranges::find(seen, what) == seen.end();
    seen.push_back(what);
    return first;
  };
  const Subjects subjects = bit_of(rule.subject);
  for (const auto& [name, direction] : kDirections) {
    if (word != name || subjects != kOfFrames) continue;
    if (!once("direction")) return refuse(word, "the rule has a direction already; write both for both");
    rule.direction = direction;
    return {};
  }
  const auto row = std::ranges::find(word_rows(), key, &WordRow::name);
  if (row == word_rows().end() || equals == std::string_view::npos || (row->subjects & subjects) == 0) {
    return refuse(word, fmt::format("behind the action may stand {}", words_of(rule.subject)));
  }
  if (!once(key))
    return refuse(word, fmt::format("the rule has {}= already; several values stand between commas where "
                                    "the word takes a list",
                                    key));
  if (auto read = row->read(word.substr(equals + 1), rule); !read) return refuse(word, read.error().text);
  return {};
}

/// Words that do not fit each other.
Result<void> check_together(std::string_view action, const Rule& rule, std::span<const std::string_view> seen) {
  const auto has = [&](std::string_view word) { return std::ranges::find(seen, word) != seen.end(); };
  if (rule.action == Action::partition) {
    if (rule.peers.empty()) return refuse(action, "it needs peer=, the addresses that are cut off");
    if (rule.direction != Direction::both) return refuse(action, "it has both directions; use drop for one");
  }
  if (rule.action != Action::corrupt) {
    if (has("icrc")) return refuse("icrc=", "only corrupt has it");
    if (has("at")) return refuse("at=", "only corrupt has it");
  } else if (rule.part == Part::icrc && has("icrc")) {
    return refuse("icrc=", "corrupt icrc makes it wrong; leave the word out");
  }
  if (has("reason") && (rule.action != Action::answer || rule.answer != Answer::reject)) {
    return refuse("reason=", "only answer reject has it");
  }
  if (rule.action == Action::link_down && (has("object") || has("count"))) {
    return refuse(action, "it has device= and after= alone");
  }
  if (rule.action == Action::gid_gone && (has("object") || has("count"))) {
    return refuse(action, "it has gid=, device= and after= alone");
  }
  if (has("gid") && rule.action != Action::gid_gone) return refuse("gid=", "only gid_gone has it");
  if (has("nth") && has("every")) return refuse("every=", "a rule has nth= or every=, not both");
  return {};
}

}  // namespace

Result<Rule> parse_rule(std::string_view line) {
  if (line.size() > kLongestRule) {
    return fail(EINVAL, fmt::format("a rule has {} characters at most; this one has {}", kLongestRule, line.size()));
  }
  const auto all = split_at_blanks(without_comment(line));
  if (all.empty()) {
    return fail(EINVAL,
                fmt::format("the rule has no words; it begins with its action: {}", names_of(action_rows(), "")));
  }
  Rule rule;
  std::span<const std::string_view> words(all);
  const auto action = read_action(words, rule);
  if (!action) return std::unexpected(action.error());
  std::vector<std::string_view> seen;
  for (const std::string_view word : words) {
    if (auto read = read_word(word, rule, seen); !read) return std::unexpected(read.error());
  }
  if (auto fits = check_together((*action)->name, rule, seen); !fits) return std::unexpected(fits.error());
  for (const std::string_view word : all) rule.text += fmt::format("{}{}", rule.text.empty() ? "" : " ", word);
  return rule;
}

Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view source) {
  std::vector<Rule> rules;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (split_at_blanks(without_comment(line)).empty()) continue;
    auto rule = parse_rule(line);
    if (!rule) return fail(EINVAL, fmt::format("{}:{}: {}", source, number, rule.error().text));
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace uroce::faults
