// Reading and showing values of the configuration file, by kind.
#pragma once

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "settings/access.h"
#include "uroced/field.h"

namespace uroce::daemon {

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

/// The value that the file has for a setting.
std::expected<settings::Value, Refusal> read_value(const toml::node& node, const settings::Setting& setting);

/// The value of a field, and its change.
template <class Target>
struct Member {
  std::function<settings::Value(const Target&)> get;
  std::function<void(Target&, const settings::Value&)> set;
};

/// `unset`: what stands for a member without a value.
template <class Target>
Field<Target> field(const settings::Setting& setting, const Member<Target>& member, const std::string& unset = {}) {
  return {setting,
          [=](const toml::node& node, Target& target) -> Read {
            const auto value = read_value(node, setting);
            if (!value) return std::unexpected(value.error());
            member.set(target, *value);
            return {};
          },
          [=](const Target& target) {
            const settings::Value value = member.get(target);
            return std::holds_alternative<std::monostate>(value) ? unset : settings::text_of(value);
          },
          [=](const Target& from, Target& to) { member.set(to, member.get(from)); }};
}

/// A field for the member at the end of the path.
template <auto... Path>
auto field(const settings::Setting& setting) {
  const auto access = settings::access<Path...>();
  using Target = typename decltype(access)::Target;
  return field<Target>(settings::typed<Path...>(setting), Member<Target>{access.get, access.set});
}

/// A field that the file has in a form of its own.
template <class Target>
Field<Target> field_read_by(const settings::Setting& setting, Read (*read)(const toml::node&, Target&),
                            std::function<std::string(const Target&)> show) {
  return {setting, read, std::move(show)};
}

}  // namespace uroce::daemon
