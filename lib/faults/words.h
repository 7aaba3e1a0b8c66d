// The words of the language. Parser, error texts and reference come from these tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <uroce/error.h>

#include "faults/rule.h"

namespace uroce::faults {

/// The subjects that a word is for.
enum Subjects : uint8_t {
  kOfFrames = 1,
  kOfCalls = 2,
  kOfEvents = 4,
  kOfCompletions = 8,
  kOfFramesAndCalls = kOfFrames | kOfCalls,
  kOfObjects = kOfEvents | kOfCompletions,
  kOfChosen = kOfFramesAndCalls | kOfCompletions,  ///< those that rules count
  kOfAll = kOfChosen | kOfEvents,
};
constexpr Subjects bit_of(Subject subject) { return static_cast<Subjects>(1 << static_cast<unsigned>(subject)); }

struct ActionRow {
  Action action;
  std::string_view name;
  std::string_view value;  ///< the word behind it; in brackets where it may be missing, empty for none
  Subjects subjects;
  std::string_view text;
  Result<void> (*read)(std::string_view value, Rule& rule);
};
std::span<const ActionRow> action_rows();

struct WordRow {
  std::string_view name;
  std::string_view value;
  Subjects subjects;
  std::string_view text;
  Result<void> (*read)(std::string_view value, Rule& rule);
};
std::span<const WordRow> word_rows();

/// All words as Markdown: config/faults.md has it.
std::string reference();

inline constexpr std::pair<std::string_view, Direction> kDirections[] = {
    {"rx", Direction::rx}, {"tx", Direction::tx}, {"both", Direction::both}};

}  // namespace uroce::faults
