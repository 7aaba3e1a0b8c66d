// Reading and showing values of the configuration file, by kind.
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <optional>
#include <utility>
#include <vector>

#include "uroced/field.h"

namespace uroce::daemon {

using Read = std::expected<void, Refusal>;

inline std::unexpected<Refusal> refuse(std::string text, const toml::node* where = nullptr) {
  return std::unexpected(Refusal{std::move(text), where});
}

inline std::unexpected<Refusal> wrong_kind(const toml::node& node, std::string_view needed,
                                           const toml::node* where = nullptr) {
  return refuse(fmt::format("it is {}; it must be {}", kind_of(node), needed), where);
}

/// The strings of a string or of an array of strings, each with its place in the file.
inline std::expected<std::vector<std::pair<std::string, const toml::node*>>, Refusal> strings_of(
    const toml::node& node, std::string_view needed) {
  std::vector<std::pair<std::string, const toml::node*>> out;
  if (node.is_string()) out.emplace_back(node.as_string()->get(), &node);
  if (node.is_string()) return out;
  if (!node.is_array()) return wrong_kind(node, needed);
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_string()) return wrong_kind(element, fmt::format("a string in {}", needed), &element);
    out.emplace_back(element.as_string()->get(), &element);
  }
  return out;
}

/// Returns the member of a target that belongs to a field.
template <class Target, class Member>
using Access = std::function<Member&(Target&)>;

template <class Target, class Member>
const Member& get(const Access<Target, Member>& access, const Target& target) {
  return access(const_cast<Target&>(target));  // the accessors only return a reference
}

template <class Target, std::integral Member>
Field<Target> number(std::string_view name, const Access<Target, Member>& access, int64_t least, int64_t most,
                     bool live) {
  return {name, live,
          [=](const toml::node& node, Target& target) -> Read {
            const std::string needed = fmt::format("an integer from {} to {}", least, most);
            if (!node.is_integer()) return wrong_kind(node, needed);
            const int64_t value = node.as_integer()->get();
            if (value < least || value > most) return refuse(fmt::format("it must be {}", needed));
            access(target) = static_cast<Member>(value);
            return {};
          },
          [=](const Target& target) { return fmt::to_string(get(access, target)); }};
}

/// A field with a number that may have a fraction.
template <class Target>
Field<Target> real(std::string_view name, const Access<Target, double>& access, double least, double most) {
  return {name, false,
          [=](const toml::node& node, Target& target) -> Read {
            const std::string needed = fmt::format("a number from {} to {}", least, most);
            const auto value = node.value<double>();
            if (!value || node.is_boolean()) return wrong_kind(node, needed);
            const bool within = *value >= least && *value <= most;  // false for a NaN
            if (!within) return refuse(fmt::format("it must be {}", needed));
            access(target) = *value;
            return {};
          },
          [=](const Target& target) { return fmt::to_string(get(access, target)); }};
}

template <class Target>
Field<Target> truth(std::string_view name, const Access<Target, bool>& access, bool live) {
  return {name, live,
          [=](const toml::node& node, Target& target) -> Read {
            if (!node.is_boolean()) return wrong_kind(node, "true or false");
            access(target) = node.as_boolean()->get();
            return {};
          },
          [=](const Target& target) { return std::string(get(access, target) ? "true" : "false"); }};
}

template <class Choice>
using Names = std::vector<std::pair<std::string_view, Choice>>;

/// The names of a table, as a list.
template <class Choice, std::size_t N>
Names<Choice> all_of(const std::array<std::pair<std::string_view, Choice>, N>& names) {
  return {names.begin(), names.end()};
}

template <class Choice>
std::string list_of(const Names<Choice>& names) {
  std::string needed = "one of";
  for (const auto& [word, value] : names) needed += fmt::format("{} \"{}\"", word == names[0].first ? "" : ",", word);
  return needed;
}

template <class Choice>
std::expected<Choice, Refusal> choose(const toml::node& node, const Names<Choice>& names) {
  if (!node.is_string()) return wrong_kind(node, list_of(names));
  for (const auto& [word, value] : names) {
    if (word == node.as_string()->get()) return value;
  }
  return refuse(fmt::format("it must be {}", list_of(names)));
}

template <class Choice>
std::string shown(const Names<Choice>& names, Choice choice) {
  for (const auto& [word, value] : names) {
    if (value == choice) return fmt::format("\"{}\"", word);
  }
  return "?";
}

/// A field with one of several words. `Member` is the choice, or an optional one; unset means the value of [engines].
template <class Choice, class Target, class Member>
Field<Target> choice(std::string_view name, const Access<Target, Member>& access, const Names<Choice>& names,
                     bool live = false) {
  return {name, live,
          [=](const toml::node& node, Target& target) -> Read {
            const auto chosen = choose(node, names);
            if (!chosen) return std::unexpected(chosen.error());
            access(target) = *chosen;
            return {};
          },
          [=](const Target& target) {
            const Member& member = get(access, target);
            if constexpr (std::is_same_v<Member, Choice>) {
              return shown(names, member);
            } else {
              return member ? shown(names, *member) : std::string("that of [engines]");
            }
          }};
}

}  // namespace uroce::daemon
