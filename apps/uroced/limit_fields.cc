// The keys of [limits] and [[user]].
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "transport/engine/owners.h"
#include "uroced/config_fields.h"
#include "uroced/field_kinds.h"
#include "uroced/privilege.h"

namespace uroce::daemon {

namespace {

constexpr int64_t kMostObjects = 1 << 20;
constexpr int64_t kLongestPenalty = 86400;  // a day
constexpr std::string_view kByteUnits = "a number of bytes, or a size like \"4GiB\" (KiB, MiB, GiB, TiB)";

std::optional<uint64_t> bytes_of(const toml::node& node) {
  if (node.is_integer()) return static_cast<uint64_t>(std::max<int64_t>(node.as_integer()->get(), 0));
  const std::string& text = node.as_string()->get();
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  std::string_view unit(rest, text.data() + text.size());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr std::array<std::string_view, 5> kUnits{"", "KiB", "MiB", "GiB", "TiB"};
  const auto found = std::ranges::find(kUnits, unit);
  if (found == kUnits.end()) return std::nullopt;
  const auto shift = static_cast<unsigned>(10 * (found - kUnits.begin()));
  if (value > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

template <class Target>
Field<Target> bytes(std::string_view name, const Access<Target, uint64_t>& access, bool live) {
  constexpr uint64_t kLeast = 4096, kMost = uint64_t{1} << 47;  // a page; the most that a process can map
  return {name, live,
          [=](const toml::node& node, Target& target) -> Read {
            if (!node.is_integer() && !node.is_string()) return wrong_kind(node, kByteUnits);
            const auto value = bytes_of(node);
            if (!value) return refuse(fmt::format("it must be {}", kByteUnits));
            if (*value < kLeast || *value > kMost) return refuse("it must be from 4 KiB to 128 TiB");
            access(target) = *value;
            return {};
          },
          [=](const Target& target) { return fmt::format("{} bytes", get(access, target)); }};
}

/// The keys of a table with limits. A limit of 0 stands for the automatic one, and is not written.
template <class Target>
std::vector<Field<Target>> make_limit_fields(const Access<Target, service::Limits>& limits) {
  using service::Resource;
  std::vector<Field<Target>> fields;
  for (const service::ResourceName& name : service::kResourceNames) {
    const Access<Target, uint64_t> access = [limits, resource = name.resource](Target& target) -> uint64_t& {
      return limits(target)[resource];
    };
    const bool in_bytes = name.resource == Resource::queue_bytes || name.resource == Resource::registered_bytes;
    auto field = in_bytes ? bytes<Target>(name.setting, access, true)
                          : number<Target, uint64_t>(name.setting, access, 1, kMostObjects, true);
    field.show = [access, show = field.show](const Target& target) {
      return get(access, target) == 0 ? "automatic" : show(target);
    };
    fields.push_back(std::move(field));
  }
  return fields;
}

Read read_user(const toml::node& node, service::UserSettings& user) {
  if (!node.is_string()) return wrong_kind(node, "the name of a user, or a uid, as a string");
  user.name = node.as_string()->get();
  const auto [rest, error] = std::from_chars(user.name.data(), user.name.data() + user.name.size(), user.uid);
  if (error == std::errc{} && rest == user.name.data() + user.name.size()) return {};
  const auto found = find_account(user.name);
  if (!found)
    return refuse("this machine has no user of that name; add it, or choose one that `getent passwd` lists, or a uid");
  user.uid = found->uid;
  return {};
}

}  // namespace

std::span<const Field<Config>> limit_fields() {
  static const auto kFields = [] {
    auto all = make_limit_fields<Config>([](Config& c) -> service::Limits& { return c.server.budgets.limits; });
    all.push_back(truth<Config>("file_memory", [](Config& c) -> bool& { return c.server.budgets.file_memory; }, true));
    all.push_back(number<Config, uint32_t>(
        "punch_penalty", [](Config& c) -> uint32_t& { return c.server.budgets.punch_penalty; }, 0, kLongestPenalty,
        true));
    return all;
  }();
  return kFields;
}

std::span<const Field<service::UserSettings>> user_fields() {
  using service::UserSettings;
  static const auto kFields = [] {
    auto all = make_limit_fields<UserSettings>([](UserSettings& u) -> service::Limits& { return u.limits; });
    all.insert(all.begin(), number<UserSettings, uint32_t>(
                                "weight", [](UserSettings& u) -> uint32_t& { return u.weight; }, 1,
                                transport::Owner::kMaxWeight, true));
    all.push_back(truth<UserSettings>("file_memory", [](UserSettings& u) -> bool& { return u.file_memory; }, true));
    all.push_back(truth<UserSettings>("raw_packets", [](UserSettings& u) -> bool& { return u.raw_packets; }, true));
    all.insert(all.begin(), {"name", true, read_user, [](const UserSettings& u) { return toml_string(u.name); }});
    return all;
  }();
  return kFields;
}

}  // namespace uroce::daemon
