#include "uroced/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <net/if.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>

#include "net/address.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/stack_options.h"
#include "transport/congestion/parameters.h"
#include "transport/core/setting_names.h"
#include "uroced/field_kinds.h"
#include "uroced/metrics_server.h"
#include "uroced/privilege.h"

namespace uroce::daemon {

namespace {

/// A number of a port. `meaning_of_0` is the meaning of 0, which is outside the range.
Field<DeviceSettings> port_number(std::string_view name, Access<DeviceSettings, std::optional<int>> access, int least,
                                  int most, std::string_view meaning_of_0) {
  return {name, false,
          [=](const toml::node& node, DeviceSettings& target) -> Read {
            const std::string needed = fmt::format("an integer from {} to {}, or 0 for {}", least, most, meaning_of_0);
            if (!node.is_integer()) return wrong_kind(node, needed);
            const int64_t value = node.as_integer()->get();
            if (value != 0 && (value < least || value > most)) return refuse(fmt::format("it must be {}", needed));
            access(target) = static_cast<int>(value);
            return {};
          },
          [=](const DeviceSettings& target) { return fmt::to_string(get(access, target).value_or(0)); }};
}

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
Field<Target> bytes(std::string_view name, Access<Target, uint64_t> access, bool live) {
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

/// A string or an array of strings, as a list.
std::expected<std::vector<std::pair<std::string, const toml::node*>>, Refusal> strings_of(const toml::node& node,
                                                                                          std::string_view needed) {
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

Read read_socket(const toml::node& node, Config& config) {
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (!node.is_string()) return wrong_kind(node, "a path as a string");
  const std::string& path = node.as_string()->get();
  if (!path.starts_with('/')) return refuse("it must be an absolute path, like \"/run/uroce/uroced.sock\"");
  if (path.size() > kMost || path.find('\0') != std::string::npos) {
    return refuse(
        fmt::format("a socket's path has at most {} bytes, none of them 0; this one has {}", kMost, path.size()));
  }
  config.server.socket = path;
  return {};
}

Read read_mode(const toml::node& node, Config& config) {
  constexpr std::string_view kNeeded = "a string of octal digits from \"0000\" to \"0777\"";
  if (!node.is_string()) return wrong_kind(node, kNeeded);
  const std::string& text = node.as_string()->get();
  unsigned mode = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc{} || rest != text.data() + text.size() || mode > 0777) {
    return refuse(fmt::format("it must be {}", kNeeded));
  }
  config.server.mode = mode;
  return {};
}

Read read_group(const toml::node& node, Config& config) {
  if (!node.is_string()) return wrong_kind(node, "the name of a group as a string");
  const std::string& name = node.as_string()->get();
  config.group = name;
  config.server.group.reset();
  if (name.empty()) return {};
  // getgrnam() is safe: only the main thread calls it.
  const group* found = getgrnam(name.c_str());
  if (found == nullptr)
    return refuse("this machine has no group of that name; add it, or choose one that `getent group` lists");
  config.server.group = found->gr_gid;
  return {};
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

Read read_daemon_user(const toml::node& node, Config& config) {
  constexpr std::size_t kMost = 32;  // useradd(8)
  if (!node.is_string()) return wrong_kind(node, "the name of a user as a string");
  const std::string& name = node.as_string()->get();
  if (name.size() > kMost || name.find_first_of(":/\n\t ") != std::string::npos)
    return refuse(
        "it must be the name of a user, of at most 32 characters, or \"\" to stay the user that starts uroced");
  config.privilege.user = name;
  return {};
}

Read read_lcores(const toml::node& node, Config& config) {
  if (!node.is_string()) return wrong_kind(node, "a string like \"0,1\"");
  const std::string& text = node.as_string()->get();
  if (text.find_first_not_of("0123456789,-()@") != std::string::npos) {
    return refuse("it may contain only digits and , - ( ) @ as for EAL's --lcores, like \"0,1\" or \"(0,1)@2\"");
  }
  config.lcores = text;
  return {};
}

Read read_eal(const toml::node& node, Config& config) {
  const auto words = strings_of(node, "an array of strings like [\"--vdev\", \"net_af_packet0,iface=eth1\"]");
  if (!words) return std::unexpected(words.error());
  config.eal.clear();
  for (const auto& [word, where] : *words) config.eal.push_back(word);
  if (const auto plan = glue::plan_eal(config.eal, {}); !plan) return refuse(plan.error().text);
  return {};
}

Read read_addresses(const toml::node& node, DeviceSettings& device) {
  const auto words = strings_of(node, "an array of strings like [\"192.0.2.1/24\", \"2001:db8::1/64\"], or \"kernel\"");
  if (!words) return std::unexpected(words.error());
  device.addresses.clear();
  if (words->size() == 1 && words->front().first == StackOptions::kKernelAddresses) {
    device.addresses = words->front().first;
    return {};
  }
  for (const auto& [word, where] : *words) {
    if (word == StackOptions::kKernelAddresses)
      return refuse("\"kernel\" stands alone; leave the addresses out", where);
    if (const auto one = net::parse_interface_address(word); !one) return refuse(one.error().text, where);
    device.addresses += (device.addresses.empty() ? "" : ",") + word;
    if (const auto all = net::parse_interface_addresses(device.addresses); !all) return refuse(all.error().text, where);
  }
  if (device.addresses.empty()) return refuse("it must have at least one address; leave the key out for the default");
  return {};
}

Read read_interface(const toml::node& node, DeviceSettings& device) {
  constexpr std::size_t kMost = IFNAMSIZ - 1;
  if (!node.is_string()) return wrong_kind(node, "the name of a network interface as a string, like \"eth0\"");
  const std::string& name = node.as_string()->get();
  if (name.empty() || name.size() > kMost || name.find_first_of("/:, \t\n") != std::string::npos)
    return refuse(
        fmt::format("it must be the name of a network interface, of 1 to {} characters, as `ip link` lists it", kMost));
  device.interface = name;
  return {};
}

Read read_gateway(const toml::node& node, DeviceSettings& device) {
  const auto words = strings_of(node, "an address as a string like \"192.0.2.254\", or an array of them");
  if (!words) return std::unexpected(words.error());
  std::string gateways;
  for (const auto& [word, where] : *words) {
    if (word.empty() && words->size() == 1) continue;  // none
    if (const auto one = net::parse_address(word); !one) return refuse(one.error().text, where);
    gateways += (gateways.empty() ? "" : ",") + word;
  }
  device.gateway = gateways;
  return {};
}

std::vector<Field<Config>> make_daemon_fields() {
  return {
      {"socket", false, read_socket, [](const Config& c) { return toml_string(c.server.socket); }},
      {"group", false, read_group, [](const Config& c) { return toml_string(c.group); }},
      {"mode", false, read_mode, [](const Config& c) { return fmt::format("\"{:04o}\"", c.server.mode); }},
      number<Config, uint32_t>(
          "max_clients", [](Config& c) -> uint32_t& { return c.server.max_clients; }, 1, 65536, true),
      choice<LogLevel, Config, LogLevel>(
          "log_level", [](Config& c) -> LogLevel& { return c.log_level; },
          {{"debug", LogLevel::debug},
           {"info", LogLevel::info},
           {"warning", LogLevel::warning},
           {"error", LogLevel::error}},
          true),
  };
}

Read read_metrics_listen(const toml::node& node, Config& config) {
  if (!node.is_string()) return wrong_kind(node, "an address with a port as a string, or \"\" for none");
  const std::string& text = node.as_string()->get();
  if (!text.empty()) {
    if (const auto where = parse_listen_address(text); !where) return refuse(where.error().text);
  }
  config.metrics_listen = text;
  return {};
}

std::vector<Field<Config>> make_metrics_fields() {
  return {{"listen", false, read_metrics_listen, [](const Config& c) { return toml_string(c.metrics_listen); }}};
}

std::vector<Field<Config>> make_privilege_fields() {
  return {
      {"user", false, read_daemon_user, [](const Config& c) { return toml_string(c.privilege.user); }},
      truth<Config>(
          "seccomp", [](Config& c) -> bool& { return c.privilege.seccomp; }, false),
  };
}

/// The keys of a table with limits. A limit of 0 stands for the automatic one, and is not written.
template <class Target>
std::vector<Field<Target>> make_limit_fields(Access<Target, service::Limits> limits) {
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

template <class Choice, std::size_t N>
Names<Choice> all_of(const std::array<std::pair<std::string_view, Choice>, N>& names) {
  return {names.begin(), names.end()};
}

Read read_icrc(const toml::node& node, Config& config) {
  const auto names = glue::icrc_choices();
  const std::string needed = fmt::format("one of \"{}\", which this CPU has", fmt::join(names, "\", \""));
  if (!node.is_string()) return wrong_kind(node, needed);
  const std::string& name = node.as_string()->get();
  if (std::ranges::find(names, name) == names.end()) return refuse(fmt::format("it must be {}", needed));
  config.stack.icrc = name;
  return {};
}

std::vector<Field<Config>> make_engine_fields() {
  using TxMode = StackOptions::TxMode;
  const auto count = [](std::string_view name, Access<Config, uint32_t> access, int64_t least, int64_t most) {
    return number<Config, uint32_t>(name, access, least, most, false);
  };
  return {
      {"lcores", false, read_lcores, [](const Config& c) { return toml_string(c.lcores); }},
      choice<IdlePolicy, Config, IdlePolicy>(
          "idle", [](Config& c) -> IdlePolicy& { return c.stack.idle; },
          {{"busy", IdlePolicy::busy}, {"yield", IdlePolicy::yield}, {"sleep", IdlePolicy::sleep}}),
      choice<TxMode, Config, TxMode>(
          "tx_mode", [](Config& c) -> TxMode& { return c.stack.tx_mode; },
          {{"automatic", TxMode::automatic}, {"copy", TxMode::copy}, {"external", TxMode::external}}),
      {"icrc", false, read_icrc, [](const Config& c) { return toml_string(c.stack.icrc); }},
      count(
          "max_qp", [](Config& c) -> uint32_t& { return c.stack.max_qp; }, 1, 1 << 18),
      count(
          "max_mr", [](Config& c) -> uint32_t& { return c.stack.max_mr; }, 1, 1 << 20),
      count(
          "rx_descriptors", [](Config& c) -> uint32_t& { return c.stack.rx_descriptors; }, 64, 8192),
      count(
          "tx_descriptors", [](Config& c) -> uint32_t& { return c.stack.tx_descriptors; }, 64, 8192),
      choice<Retransmission, Config, Retransmission>(
          "retransmission", [](Config& c) -> Retransmission& { return c.stack.retransmission; },
          all_of(transport::kRetransmissionNames)),
      choice<CongestionAlgorithm, Config, CongestionAlgorithm>(
          "congestion_control", [](Config& c) -> CongestionAlgorithm& { return c.stack.congestion.algorithm; },
          all_of(transport::kCongestionNames)),
      count(
          "udp_source_ports", [](Config& c) -> uint32_t& { return c.stack.udp_source_ports; }, 1, 64),
      count(
          "parking_frames", [](Config& c) -> uint32_t& { return c.stack.parking_frames; }, 0, 65535),
      real<Config>(
          "receive_loss", [](Config& c) -> double& { return c.stack.receive_loss; }, 0, 0.5),
      truth<Config>(
          "whole_frames", [](Config& c) -> bool& { return c.stack.whole_frames; }, false),
  };
}

/// The parameters of one algorithm of congestion control.
std::vector<Field<Config>> make_congestion_fields(std::string_view algorithm) {
  std::vector<Field<Config>> fields;
  for (const transport::CongestionParameter& one : transport::congestion_parameters()) {
    if (one.algorithm != algorithm) continue;
    if (one.whole != nullptr) {
      fields.push_back(number<Config, uint32_t>(
          one.name, [get = one.whole](Config& c) -> uint32_t& { return get(c.stack.congestion); },
          static_cast<int64_t>(one.least), static_cast<int64_t>(one.most), false));
    } else {
      fields.push_back(real<Config>(
          one.name, [get = one.real](Config& c) -> double& { return get(c.stack.congestion); }, one.least, one.most));
    }
  }
  return fields;
}

}  // namespace

std::span<const Section> sections() {
  static const auto daemon = make_daemon_fields();
  static const auto privilege = make_privilege_fields();
  static const auto metrics = make_metrics_fields();
  static const auto limits = [] {
    auto all = make_limit_fields<Config>([](Config& c) -> service::Limits& { return c.server.budgets.limits; });
    all.push_back(truth<Config>("file_memory", [](Config& c) -> bool& { return c.server.budgets.file_memory; }, true));
    all.push_back(number<Config, uint32_t>(
        "punch_penalty", [](Config& c) -> uint32_t& { return c.server.budgets.punch_penalty; }, 0, kLongestPenalty,
        true));
    return all;
  }();
  static const auto engines = make_engine_fields();
  static const std::vector<Field<Config>> eal{
      {"arguments", false, read_eal, [](const Config& c) { return fmt::format("{}", c.eal); }}};
  static const auto dcqcn = make_congestion_fields("dcqcn");
  static const auto swift = make_congestion_fields("swift");
  static const std::array<Section, 8> all{{{"daemon", daemon},
                                           {"privilege", privilege},
                                           {"metrics", metrics},
                                           {"limits", limits},
                                           {"engines", engines},
                                           {"dcqcn", dcqcn},
                                           {"swift", swift},
                                           {"eal", eal}}};
  return all;
}

std::span<const Field<service::UserSettings>> user_fields() {
  using service::UserSettings;
  static const auto fields = [] {
    auto all = make_limit_fields<UserSettings>([](UserSettings& u) -> service::Limits& { return u.limits; });
    all.insert(all.begin(), number<UserSettings, uint32_t>(
                                "weight", [](UserSettings& u) -> uint32_t& { return u.weight; }, 1,
                                transport::Owner::kMaxWeight, true));
    all.push_back(truth<UserSettings>("file_memory", [](UserSettings& u) -> bool& { return u.file_memory; }, true));
    all.push_back(truth<UserSettings>("raw_packets", [](UserSettings& u) -> bool& { return u.raw_packets; }, true));
    all.insert(all.begin(), {"name", true, read_user, [](const UserSettings& u) { return toml_string(u.name); }});
    return all;
  }();
  return fields;
}

std::span<const Field<DeviceSettings>> device_fields() {
  using Number = std::optional<int>;
  static const std::vector<Field<DeviceSettings>> fields{
      {"interface", false, read_interface, [](const DeviceSettings& d) { return toml_string(d.interface); }},
      {"addresses", true, read_addresses, [](const DeviceSettings& d) { return toml_string(d.addresses); }},
      port_number(
          "mtu", [](DeviceSettings& d) -> Number& { return d.mtu; }, 256 + glue::kIpOverhead, glue::kLargestMtu,
          "the port's own"),
      port_number(
          "vlan", [](DeviceSettings& d) -> Number& { return d.vlan; }, 1, 4094, "untagged frames"),
      {"gateway", true, read_gateway, [](const DeviceSettings& d) { return toml_string(d.gateway.value_or("")); }},
      choice<Retransmission, DeviceSettings, std::optional<Retransmission>>(
          "retransmission", [](DeviceSettings& d) -> std::optional<Retransmission>& { return d.retransmission; },
          all_of(transport::kRetransmissionNames)),
      choice<CongestionAlgorithm, DeviceSettings, std::optional<CongestionAlgorithm>>(
          "congestion_control",
          [](DeviceSettings& d) -> std::optional<CongestionAlgorithm>& { return d.congestion_control; },
          all_of(transport::kCongestionNames)),
      port_number(
          "udp_source_ports", [](DeviceSettings& d) -> Number& { return d.udp_source_ports; }, 1, 64,
          "that of [engines]"),
  };
  return fields;
}

}  // namespace uroce::daemon
