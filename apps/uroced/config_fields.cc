#include "uroced/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <sys/un.h>

#include <array>
#include <charconv>

#include "pmd_glue/eal_args.h"
#include "settings/table.h"
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

Read read_metrics_listen(const toml::node& node, Config& config) {
  if (!node.is_string()) return wrong_kind(node, "an address with a port as a string, or \"\" for none");
  const std::string& text = node.as_string()->get();
  if (!text.empty()) {
    if (const auto where = parse_listen_address(text); !where) return refuse(where.error().text);
  }
  config.metrics_listen = text;
  return {};
}

constexpr auto kServer = &Config::server;
constexpr auto kPrivilege = &Config::privilege;

std::vector<Field<Config>> make_daemon_fields() {
  using service::ServerConfig;
  return {
      field_read_by<Config>({.table = "daemon",
                             .key = "socket",
                             .option = "--socket",
                             .values = "absolute path, at most 107 bytes",
                             .text = "Path of the control socket. The daemon creates its folder. Programs look at the "
                                     "default path or, when it is set, at the path in UROCE_SOCKET."},
                            read_socket, [](const Config& c) { return settings::in_quotes(c.server.socket); }),
      field_read_by<Config>({.table = "daemon",
                             .key = "group",
                             .values = "name of a group",
                             .by_default = "the daemon's own",
                             .example = "\"users\"",
                             .text = "Group of the socket."},
                            read_group, [](const Config& c) { return settings::in_quotes(c.group); }),
      field_read_by<Config>({.table = "daemon",
                             .key = "mode",
                             .values = "octal, \"0000\" to \"0777\"",
                             .text = "Permissions of the socket. They decide who may use the devices."},
                            read_mode, [](const Config& c) { return fmt::format("\"{:04o}\"", c.server.mode); }),
      field<kServer, &ServerConfig::max_clients>(
          {.table = "daemon",
           .key = "max_clients",
           .least = 1,
           .most = 65536,
           .option = "--max-clients",
           .live = true,
           .text = "Most connections at once. A program has one for each device that it opens."}),
      field<&Config::log_level>({.table = "daemon",
                                 .key = "log_level",
                                 .option = "--log-level",
                                 .live = true,
                                 .text = "Least severe messages to log."}),
      field<&Config::crash_recovery>(
          {.table = "daemon",
           .key = "crash_recovery",
           .text = "Let queue pairs and connections outlive a crash or kill -9, where systemd or --supervise starts "
                   "the daemon again. A small process sleeps for that."}),
      field<&Config::answer_pings>(
          {.table = "daemon",
           .key = "answer_pings",
           .text = "Answer `uroce ping` of other machines. Strangers may ask, too: an answer is no longer than its "
                   "question, and each device serves 16 peers at most, 10 new ones and 2000 messages a second. With "
                   "false, `uroce ping --answer` can do it."}),
  };
}

std::vector<Field<Config>> make_privilege_fields() {
  return {
      field_read_by<Config>(
          {.table = "privilege",
           .key = "user",
           .option = "--user",
           .values = "name of a user, or \"\"",
           .by_default = "uroce, where it exists",
           .text = "User that root becomes once the ports are open. It then has no capability. With \"\" root stays "
                   "root, and also if this machine has no such user. Started by another user, the daemon stays that "
                   "user, and gives up its capabilities."},
          read_daemon_user, [](const Config& c) { return settings::in_quotes(c.privilege.user); }),
      field<kPrivilege, &PrivilegeSettings::seccomp>(
          {.table = "privilege",
           .key = "seccomp",
           .text = "Refuse system calls that a running daemon does not make, such as starting a program or tracing a "
                   "process."}),
  };
}

std::vector<Field<Config>> make_metrics_fields() {
  return {field_read_by<Config>({.table = "metrics",
                                 .key = "listen",
                                 .values = "an address with a port, like \"127.0.0.1:9464\" or \"[::1]:9464\", or \"\"",
                                 .text = "Where the page is served. With \"\" it is not."},
                                read_metrics_listen,
                                [](const Config& c) { return settings::in_quotes(c.metrics_listen); })};
}

/// The settings of the table that are in [name].
std::vector<Field<Config>> fields_of_table(std::string_view name) {
  std::vector<Field<Config>> fields;
  for (const settings::Row& row : settings::rows()) {
    if (row.setting.table != name) continue;
    fields.push_back(field<Config>(
        row.setting, {[access = row.stack](const Config& c) { return access.get(c.stack); },
                      [access = row.stack](Config& c, const auto& value) { access.set(c.stack, value); }}));
  }
  return fields;
}

std::vector<Field<Config>> make_engine_fields() {
  auto fields = fields_of_table("engines");
  fields.insert(fields.begin(),
                field_read_by<Config>(
                    {.table = "engines",
                     .key = "lcores",
                     .values = "as for EAL's --lcores",
                     .by_default = "EAL's choice",
                     .example = "\"0,1\"",
                     .text = "Lcores, like \"0,1\", or \"(0,1)@2\" for two on CPU 2. With a single lcore the engines "
                             "run on the main thread. Lcores among the EAL arguments override this key. Without both, "
                             "EAL takes every CPU that the process may use."},
                    read_lcores, [](const Config& c) { return settings::in_quotes(c.lcores); }));
  return fields;
}

std::vector<Field<Config>> make_eal_fields() {
  return {field_read_by<Config>(
      {.table = "eal",
       .key = "arguments",
       .values = "an array of strings",
       .by_default = "none",
       .example = "[\"--no-pci\", \"--in-memory\", \"-m\", \"512\", \"--vdev\", \"net_af_packet0,iface=eth1\"]",
       .text = "DPDK's own arguments. Arguments before `--` on the command line replace all of them."},
      read_eal, [](const Config& c) { return fmt::format("{}", c.eal); })};
}

}  // namespace

std::span<const Section> sections() {
  static const auto kDaemonFields = make_daemon_fields();
  static const auto kPrivilegeFields = make_privilege_fields();
  static const auto kMetricsFields = make_metrics_fields();
  static const auto kEngineFields = make_engine_fields();
  static const auto kDcqcnFields = fields_of_table("dcqcn");
  static const auto kSwiftFields = fields_of_table("swift");
  static const auto kEalFields = make_eal_fields();
  static const std::array<Section, 8> kAll{
      {{"daemon", "", kDaemonFields},
       {"privilege", "Rights that the daemon gives up once its ports are open.", kPrivilegeFields},
       {"metrics",
        "Metrics for Prometheus. The page shows connections and users to all who reach it, without a password.",
        kMetricsFields},
       {"limits",
        "Limits of each user, all its programs together, root's as well. Beyond one, calls fail with ENOMEM. Without a "
        "key the limit is automatic: a quarter of what there is for an ordinary user, and all of it for root and the "
        "daemon's own user. All ordinary users together leave an eighth to those. `uroce show user` shows use and "
        "limits.",
        limit_fields()},
       {"engines", "The engines move the data. Each lcore but the first runs one engine for every device.",
        kEngineFields},
       {"dcqcn",
        "Congestion control by ECN marks: switches set them, receivers report them (Zhu et al., SIGCOMM 2015).",
        kDcqcnFields},
       {"swift", "Congestion control by delay (Kumar et al., SIGCOMM 2020).", kSwiftFields},
       {"eal", "", kEalFields}}};
  return kAll;
}

}  // namespace uroce::daemon
