// The keys of [limits] and [[user]].
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>

#include "privilege/privilege.h"
#include "transport/engine/owners.h"
#include "uroced/config_fields.h"
#include "uroced/field_kinds.h"

namespace uroce::daemon {

namespace {

constexpr int64_t kMostObjects = 1 << 20;
constexpr int64_t kLongestPenalty = 86400;  // a day
/// The text of a limit, and an example of it.
struct LimitText {
  service::Resource resource;
  std::string_view text, example;
};
constexpr std::array<LimitText, service::kResources> kLimitTexts{{
    {service::Resource::connection, "Connections. A program has one for each device that it opens.", "256"},
    {service::Resource::qp, "Queue pairs.", "4096"},
    {service::Resource::cq, "Completion queues.", "8192"},
    {service::Resource::srq, "Shared receive queues.", "1024"},
    {service::Resource::mr, "Memory regions and windows.", "16384"},
    {service::Resource::pd, "Protection domains.", "16384"},
    {service::Resource::ah, "Address handles.", "16384"},
    {service::Resource::flow, "Receive rules of raw packet queue pairs. A device has room for 1024.", "256"},
    {service::Resource::cm_id,
     "Communication ids of the connection manager (rdma_cm_id). Each that is bound has a port.", "16384"},
    {service::Resource::descriptor,
     "Descriptors that the daemon has for the user: two for a channel, and eight for a connection.", "262144"},
    {service::Resource::mapping,
     "Pieces of registered memory. The kernel limits those of a process (vm.max_map_count).", "12287"},
    {service::Resource::queue_bytes,
     "Memory of all queues together. The daemon pays for it. Automatic is a sixteenth of the machine's memory, or a "
     "quarter of what the daemon's control group allows, for an ordinary user; four times that for root.",
     "\"4GiB\""},
    {service::Resource::registered_bytes,
     "Registered memory. Automatic is a quarter of the machine's memory for an ordinary user, or as much as its "
     "program may lock (RLIMIT_MEMLOCK), if that is more.",
     "\"64GiB\""},
}};

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
Field<Target> bytes(const settings::Setting& setting, const Member<Target>& member) {
  constexpr uint64_t kLeast = 4096, kMost = uint64_t{1} << 47;  // a page; the most that a process can map
  auto made = field<Target>(setting, member);
  made.read = [set = member.set](const toml::node& node, Target& target) -> Read {
    if (!node.is_integer() && !node.is_string()) return wrong_kind(node, kByteUnits);
    const auto value = bytes_of(node);
    if (!value) return refuse(fmt::format("it must be {}", kByteUnits));
    if (*value < kLeast || *value > kMost) return refuse("it must be from 4 KiB to 128 TiB");
    set(target, static_cast<int64_t>(*value));
    return {};
  };
  made.show = [get = member.get](const Target& target) {
    return fmt::format("{} bytes", settings::text_of(get(target)));
  };
  return made;
}

/// The keys of a table with limits. A limit of 0 stands for the automatic one, and is not written.
template <class Target>
std::vector<Field<Target>> make_limit_fields(std::string_view table, service::Limits& (*limits)(Target&)) {
  using service::Resource;
  std::vector<Field<Target>> fields;
  for (const service::ResourceName& name : service::kResourceNames) {
    const auto text = std::ranges::find(kLimitTexts, name.resource, &LimitText::resource);
    const bool is_bytes = name.resource == Resource::queue_bytes || name.resource == Resource::registered_bytes;
    const settings::Setting setting{.table = table,
                                    .key = name.setting,
                                    .least = 1,
                                    .most = kMostObjects,
                                    .live = true,
                                    .values = is_bytes ? "4 KiB to 128 TiB: bytes, or with KiB, MiB, GiB, TiB" : "",
                                    .by_default = "automatic",
                                    .example = text->example,
                                    .text = table == "user" ? "As in [limits], for this user." : text->text,
                                    .kind = is_bytes ? settings::Kind::text : settings::Kind::whole};
    const Member<Target> member{
        [limits, resource = name.resource](const Target& target) {
          return static_cast<int64_t>(limits(const_cast<Target&>(target))[resource]);  // only a reference comes back
        },
        [limits, resource = name.resource](Target& target, const settings::Value& value) {
          limits(target)[resource] = static_cast<uint64_t>(std::get<int64_t>(value));
        }};
    auto made = is_bytes ? bytes<Target>(setting, member) : field<Target>(setting, member);
    made.show = [get = member.get, show = made.show](const Target& target) {
      return get(target) == settings::Value(int64_t{0}) ? "automatic" : show(target);
    };
    fields.push_back(std::move(made));
  }
  return fields;
}

Read read_user(const toml::node& node, service::UserSettings& user) {
  if (!node.is_string()) return wrong_kind(node, "the name of a user, or a uid, as a string");
  user.name = node.as_string()->get();
  const auto [rest, error] = std::from_chars(user.name.data(), user.name.data() + user.name.size(), user.uid);
  if (error == std::errc{} && rest == user.name.data() + user.name.size()) return {};
  const auto found = privilege::find_account(user.name);
  if (!found)
    return refuse("this machine has no user of that name; add it, or choose one that `getent passwd` lists, or a uid");
  user.uid = found->uid;
  return {};
}

}  // namespace

std::span<const Field<Config>> limit_fields() {
  static const auto kFields = [] {
    using service::BudgetSettings;
    using service::ServerConfig;
    auto all =
        make_limit_fields<Config>("limits", [](Config& c) -> service::Limits& { return c.server.budgets.limits; });
    all.push_back(field<&Config::server, &ServerConfig::budgets, &BudgetSettings::file_memory>(
        {.table = "limits",
         .key = "file_memory",
         .live = true,
         .text = "Whether shared mappings of files on a local disk may be registered. true lets all clients wait for "
                 "the disk. With a stacked file system (overlayfs over FUSE) a client can make them wait for itself, "
                 "so say it only where clients are trusted."}));
    all.push_back(field<&Config::server, &ServerConfig::budgets, &BudgetSettings::punch_penalty>(
        {.table = "limits",
         .key = "punch_penalty",
         .least = 0,
         .most = kLongestPenalty,
         .unit = "seconds",
         .live = true,
         .text =
             "Time for which a user is refused memory in small pages after it punched memory (fallocate(2)) that an "
             "engine uses. Such an engine waits, and with it all users. 0 lets it go on."}));
    all.push_back(field<&Config::server, &ServerConfig::budgets, &BudgetSettings::tenant_ranges>(
        {.table = "limits",
         .key = "tenant_ranges",
         .live = true,
         .text = "Whether each range of /etc/subuid is a user, and each 65,536 uids of a longer one, as on a host of "
                 "several tenants' containers. false charges its uids to the owner. A uid with a [[user]] is a user in "
                 "any case. For programs that start later."}));
    return all;
  }();
  return kFields;
}

std::span<const Field<service::UserSettings>> user_fields() {
  using service::UserSettings;
  static const auto kFields = [] {
    std::vector<Field<UserSettings>> all{
        field_read_by<UserSettings>({.table = "user",
                                     .key = "name",
                                     .live = true,
                                     .values = "name of a user, or a uid",
                                     .by_default = "none; each table has one",
                                     .example = "\"root\"",
                                     .text = "The user."},
                                    read_user, [](const UserSettings& u) { return settings::in_quotes(u.name); }),
        field<&UserSettings::weight>({.table = "user",
                                      .key = "weight",
                                      .least = 1,
                                      .most = transport::Owner::kMaxWeight,
                                      .live = true,
                                      .example = "1",
                                      .text = "Its share of the engines' time relative to other users', for programs "
                                              "that start later."}),
    };
    std::ranges::move(
        make_limit_fields<UserSettings>("user", [](UserSettings& u) -> service::Limits& { return u.limits; }),
        std::back_inserter(all));
    all.push_back(field<&UserSettings::file_memory>({.table = "user",
                                                     .key = "file_memory",
                                                     .live = true,
                                                     .example = "true",
                                                     .text = "As in [limits], for this user."}));
    all.push_back(field<&UserSettings::raw_packets>(
        {.table = "user",
         .key = "raw_packets",
         .live = true,
         .example = "true",
         .text =
             "Whether its programs may send and receive raw Ethernet frames without CAP_NET_RAW: anything but RoCE, "
             "in any name."}));
    return all;
  }();
  return kFields;
}

}  // namespace uroce::daemon
