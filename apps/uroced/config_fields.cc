#include "uroced/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/setting_names.h"
#include "pmd_glue/stack_options.h"
#include "transport/congestion/parameters.h"
#include "transport/core/setting_names.h"
#include "uroced/field_kinds.h"
#include "uroced/metrics_server.h"

namespace uroce::daemon {

namespace {

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
  if (const auto fault = glue::fault_of_lcores(text); !fault.empty()) return refuse(std::string(fault));
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
      truth<Config>(
          "answer_pings", [](Config& c) -> bool& { return c.answer_pings; }, false),
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
  const auto count = [](std::string_view name, const Access<Config, uint32_t>& access, int64_t least, int64_t most) {
    return number<Config, uint32_t>(name, access, least, most, false);
  };
  return {
      {"lcores", false, read_lcores, [](const Config& c) { return toml_string(c.lcores); }},
      choice<IdlePolicy, Config, IdlePolicy>(
          "idle", [](Config& c) -> IdlePolicy& { return c.stack.idle; }, all_of(glue::kIdleNames)),
      choice<TxMode, Config, TxMode>(
          "tx_mode", [](Config& c) -> TxMode& { return c.stack.tx_mode; }, all_of(glue::kTxModeNames)),
      {"icrc", false, read_icrc, [](const Config& c) { return toml_string(c.stack.icrc); }},
      count(
          "max_qp", [](Config& c) -> uint32_t& { return c.stack.settings.max_qp; }, 1, 1 << 18),
      count(
          "max_mr", [](Config& c) -> uint32_t& { return c.stack.settings.max_mr; }, 1, 1 << 20),
      count(
          "rx_descriptors", [](Config& c) -> uint32_t& { return c.stack.rx_descriptors; }, 64, 8192),
      count(
          "tx_descriptors", [](Config& c) -> uint32_t& { return c.stack.tx_descriptors; }, 64, 8192),
      choice<Retransmission, Config, Retransmission>(
          "retransmission", [](Config& c) -> Retransmission& { return c.stack.settings.retransmission; },
          all_of(transport::kRetransmissionNames)),
      choice<CongestionAlgorithm, Config, CongestionAlgorithm>(
          "congestion_control", [](Config& c) -> CongestionAlgorithm& { return c.stack.settings.congestion.algorithm; },
          all_of(transport::kCongestionNames)),
      count(
          "udp_source_ports", [](Config& c) -> uint32_t& { return c.stack.settings.udp_source_ports; }, 1, 64),
      count(
          "parking_frames", [](Config& c) -> uint32_t& { return c.stack.settings.parking_frames; }, 0, 65535),
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
          one.name, [get = one.whole](Config& c) -> uint32_t& { return get(c.stack.settings.congestion); },
          static_cast<int64_t>(one.least), static_cast<int64_t>(one.most), false));
    } else {
      fields.push_back(real<Config>(
          one.name, [get = one.real](Config& c) -> double& { return get(c.stack.settings.congestion); }, one.least,
          one.most));
    }
  }
  return fields;
}

}  // namespace

std::span<const Section> sections() {
  static const auto kDaemon = make_daemon_fields();
  static const auto kPrivilege = make_privilege_fields();
  static const auto kMetrics = make_metrics_fields();
  static const auto kEngines = make_engine_fields();
  static const std::vector<Field<Config>> kEal{
      {"arguments", false, read_eal, [](const Config& c) { return fmt::format("{}", c.eal); }}};
  static const auto kDcqcn = make_congestion_fields("dcqcn");
  static const auto kSwift = make_congestion_fields("swift");
  static const std::array<Section, 8> kAll{{{"daemon", kDaemon},
                                            {"privilege", kPrivilege},
                                            {"metrics", kMetrics},
                                            {"limits", limit_fields()},
                                            {"engines", kEngines},
                                            {"dcqcn", kDcqcn},
                                            {"swift", kSwift},
                                            {"eal", kEal}}};
  return kAll;
}

}  // namespace uroce::daemon
