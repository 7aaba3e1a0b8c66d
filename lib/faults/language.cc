#include "faults/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>

#include "faults/opcode_names.h"
#include "faults/values.h"
#include "net/address.h"

namespace uroce::faults {

namespace {

constexpr uint32_t kMost24Bits = 0xffffff;
constexpr uint32_t kMostOvertakers = 1000;
constexpr std::size_t kLongestRule = 1024;

using Read = Result<void> (*)(std::string_view value, Rule& rule);

/// Puts a value that was read where it belongs.
template <class T, class Put>
Result<void> put(const Result<T>& value, Put where) {
  if (!value) return std::unexpected(value.error());
  where(*value);
  return {};
}

Span<uint32_t> narrow(const Span<uint64_t>& range) {
  return {static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last)};
}

Result<void> no_value(std::string_view /*value*/, Rule& /*rule*/) { return {}; }

Result<void> read_part(std::string_view value, Rule& rule) {
  constexpr std::pair<std::string_view, Part> kParts[] = {
      {"payload", Part::payload}, {"header", Part::header}, {"icrc", Part::icrc}};
  for (const auto& [name, part] : kParts) {
    if (value != name) continue;
    rule.part = part;
    return {};
  }
  return fail(EINVAL, "it must be payload, header or icrc");
}

struct ActionRow {
  Action action;
  std::string_view name;
  std::string_view value;  ///< the word behind it; in brackets where it may be missing, empty for none
  std::string_view text;
  Read read;
};

constexpr ActionRow kActions[] = {
    {Action::drop, "drop", "", "It is lost", no_value},
    {Action::delay, "delay", "TIME", "It goes on later: 10us, 5ms",
     [](std::string_view v, Rule& r) { return put(read_time(v), [&](Nanos time) { r.delay = time; }); }},
    {Action::duplicate, "duplicate", "", "A copy follows it", no_value},
    {Action::reorder, "reorder", "[N]", "N frames (1) to its queue pair go first, or 10 ms pass",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 1, kMostOvertakers), [&](uint64_t n) { r.overtakers = static_cast<uint32_t>(n); });
     }},
    {Action::corrupt, "corrupt", "payload, header or icrc",
     "One bit changes; `header` is BTH to the last extended header", read_part},
    {Action::mark, "mark", "ecn", "Congestion experienced, as switches mark it",
     [](std::string_view v, Rule&) {
       return v == "ecn" ? Result<void>() : fail(EINVAL, "it must be ecn, the only mark that there is");
     }},
    {Action::throttle, "throttle", "RATE", "The chosen frames share this rate: 100Mbit, 1Gbit a second",
     [](std::string_view v, Rule& r) { return put(read_rate(v), [&](uint64_t rate) { r.bits_per_s = rate; }); }},
    {Action::partition, "partition", "", "No RoCE passes; needs `peer`, has no direction", no_value},
};

struct WordRow {
  std::string_view name;
  std::string_view value;
  std::string_view text;
  Read read;
};

constexpr WordRow kWords[] = {
    {"device", "uroce0", "Only of this device",
     [](std::string_view v, Rule& r) {
       if (v.empty()) return Result<void>(fail(EINVAL, "it must be a device's name, like uroce0"));
       r.device = v;
       return Result<void>();
     }},
    {"qpn", "0x12", "Destination queue pair; 1 is the connection manager's",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 0, kMost24Bits), [&](uint64_t n) { r.qpn = static_cast<uint32_t>(n); });
     }},
    {"peer", "10.0.0.2, 10.0.0.0/24, 2001:db8::1", "The other side, several between commas",
     [](std::string_view v, Rule& r) {
       if (v.empty()) return Result<void>(fail(EINVAL, "it must be an address or a prefix, like 10.0.0.2"));
       return put(net::parse_prefixes(v), [&](const std::vector<Prefix>& peers) { r.peers = peers; });
     }},
    {"opcode", "send_only, uc_write_last, read*, nak, rnr", "Names of `uroce trace`, several between commas",
     read_opcodes},
    {"psn", "5, 100-200", "Packet sequence number; may wrap",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 0, kMost24Bits, true), [&](const Span<uint64_t>& range) { r.psn = narrow(range); });
     }},
    {"size", "0, 1-64", "Bytes of payload",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 0, 65535), [&](const Span<uint64_t>& range) { r.size = narrow(range); });
     }},
    {"nth", "3, 3-5", "Only these of the frames that the words above choose",
     [](std::string_view v, Rule& r) {
       return put(read_range(v, 1, UINT64_MAX), [&](const Span<uint64_t>& range) { r.nth = range; });
     }},
    {"every", "10", "Each tenth",
     [](std::string_view v, Rule& r) { return put(read_number(v, 1, UINT64_MAX), [&](uint64_t n) { r.every = n; }); }},
    {"probability", "0.01", "Each with this chance",
     [](std::string_view v, Rule& r) {
       return put(read_probability(v), [&](double chance) { r.probability = chance; });
     }},
    {"count", "2", "At most so many",
     [](std::string_view v, Rule& r) { return put(read_number(v, 1, UINT64_MAX), [&](uint64_t n) { r.count = n; }); }},
    {"seed", "7", "Of chances and bits; else drawn",
     [](std::string_view v, Rule& r) { return put(read_number(v, 0, UINT64_MAX), [&](uint64_t n) { r.seed = n; }); }},
    {"icrc", "right, wrong", "Of `corrupt`: the receiver takes the bytes, or drops them (the default)",
     [](std::string_view v, Rule& r) {
       if (v != "right" && v != "wrong") return Result<void>(fail(EINVAL, "it must be right or wrong"));
       r.icrc_is_right = v == "right";
       return Result<void>();
     }},
    {"at", "0", "Of `corrupt`: the byte; else drawn",
     [](std::string_view v, Rule& r) {
       return put(read_number(v, 0, 65535), [&](uint64_t n) { r.at = static_cast<uint32_t>(n); });
     }},
};

constexpr std::pair<std::string_view, Direction> kDirections[] = {
    {"rx", Direction::rx}, {"tx", Direction::tx}, {"both", Direction::both}};

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
std::string names_of(const Rows& rows, std::string_view behind) {
  std::string out;
  for (const auto& row : rows) out += fmt::format("{}{}{}", out.empty() ? "" : ", ", row.name, behind);
  return out;
}

std::unexpected<Error> refuse(std::string_view word, std::string_view why) {
  return fail(EINVAL, fmt::format("'{}': {}", word.substr(0, 64), why));
}

/// Reads the action and its value, and removes them from the words.
Result<const ActionRow*> read_action(std::span<const std::string_view>& words, Rule& rule) {
  const std::string_view name = words[0];
  const auto* row = std::ranges::find(kActions, name, &ActionRow::name);
  if (row == std::end(kActions)) {
    return refuse(name, fmt::format("a rule begins with its action: {}", names_of(kActions, "")));
  }
  rule.action = row->action;
  words = words.subspan(1);
  if (row->value.empty()) return row;
  const bool is_there = !words.empty() && !words[0].contains('=') &&
                        std::ranges::none_of(kDirections, [&](const auto& one) { return one.first == words[0]; });
  if (!is_there) {
    if (row->value.starts_with('[')) return row;
    return refuse(name, fmt::format("the next word must be its {}", row->value));
  }
  if (auto read = row->read(words[0], rule); !read) return refuse(words[0], read.error().text);
  words = words.subspan(1);
  return row;
}

Result<void> read_word(std::string_view word, Rule& rule, std::vector<std::string_view>& seen) {
  const std::size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const auto once = [&](std::string_view what) {
    const bool first = std::ranges::find(seen, what) == seen.end();
    seen.push_back(what);
    return first;
  };
  for (const auto& [name, direction] : kDirections) {
    if (word != name) continue;
    if (!once("direction")) return refuse(word, "the rule has a direction already; write both for both");
    rule.direction = direction;
    return {};
  }
  const auto* row = std::ranges::find(kWords, key, &WordRow::name);
  if (row == std::end(kWords) || equals == std::string_view::npos) {
    return refuse(word, fmt::format("behind the action may stand rx, tx, both, {}", names_of(kWords, "=")));
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
    return fail(EINVAL, fmt::format("the rule has no words; it begins with its action: {}", names_of(kActions, "")));
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

std::string reference() {
  std::string out = "|action|effect|\n|---|---|\n";
  for (const ActionRow& row : kActions) {
    out += fmt::format("|`{}`{}{}|{}|\n", row.name, row.value.empty() ? "" : " ", row.value, row.text);
  }
  out += "\n|word|examples|meaning|\n|---|---|---|\n|`rx`, `tx`, `both`||Received, sent, both (the default)|\n";
  for (const WordRow& row : kWords) out += fmt::format("|`{}=`|{}|{}|\n", row.name, row.value, row.text);
  return out;
}

}  // namespace uroce::faults
