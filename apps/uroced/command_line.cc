#include "uroced/command_line.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <algorithm>
#include <iterator>
#include <utility>

#include "arguments/program.h"
#include "arguments/settings.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/stack_options.h"
#include "settings/table.h"
#include "uroced/config_fields.h"

namespace uroce::daemon {

namespace {

constexpr int kUsage = 2;

std::string footer() {
  return R"(Words before `--` go to DPDK's EAL (lcores, devices, hugepages) and replace the file's [eal] arguments. Without `--` all
words are the daemon's own. Engines run on every lcore but the first.

Examples:
  Two devices joined back to back, no hardware, no configuration:
    uroced --demo
  An interface that the kernel keeps as uroce0, with the kernel's addresses; the same, with one that is free on its network:
    uroced --interface eth0
    uroced --interface eth0 --address 192.0.2.11/24
  As the service does, with a file:
    uroced --config /etc/uroce/uroced.toml
  Replace the daemon that runs with this file by this program, as after an upgrade:
    uroced --config /etc/uroce/uroced.toml --replace
  Check a file and this machine's cards; the cards alone:
    uroced --check /etc/uroce/uroced.toml
    uroced --check
  Set any key of the file on the command line:
    uroced --demo --set limits.max_qp=64 --set daemon.mode=0660
Signals: SIGTERM and SIGINT end the clients and then the daemon; another one, a second or more later, ends it at once.
SIGHUP reads the file again.
Exit codes: 0 success, 1 failure (--check: the file has errors, or a card that is named is not ready), 2 unusable command
line or configuration.)";
}

std::unexpected<EarlyExit> refuse_usage(std::string_view text) {
  return std::unexpected(EarlyExit{kUsage, fmt::format("uroced: {}", text)});
}

/// The text of `"info"` without its quotes.
std::string unquoted(const std::string& text) {
  return text.size() > 1 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

/// The options of keys of the file, which override the file's values.
void add_keys(arguments::Command& program, std::vector<Override>& out) {
  for (const Section& section : sections()) {
    for (const auto& field : section.fields) {
      const settings::Setting& setting = field.setting;
      if (setting.option.empty() || (setting.programs & settings::kUroced) == 0) continue;
      const auto take = [&setting, &out](const std::string& word) {
        out.push_back({std::string(setting.option), fmt::format("{}.{}", setting.table, setting.key), word});
        return std::string();
      };
      arguments::add_word(program, setting, unquoted(field.show(Config{})), take);
    }
  }
}

void add_port_options(arguments::Command& program, CommandLine& command) {
  program.texts("--interface", command.interfaces,
                "Network interface of the kernel, which keeps it, as a device's port; may be repeated");
  program.texts("--address", command.addresses,
                "Addresses of a port, A/len[,A/len...], or \"kernel\": those of its interface; once for each port, in "
                "port order (default: \"kernel\" with --interface, else 10.117.0.1/24, 10.117.0.2/24, ...)");
  for (const settings::Row& row : settings::rows()) {
    const bool is_port = row.port && row.setting.table == "device" && !row.setting.option.empty();
    if (!is_port || (row.setting.programs & settings::kUroced) == 0) continue;
    arguments::add_setting(program, row.setting, {},
                           [&row, &command](const settings::Value& value) { row.port.set(command.port, value); });
  }
}

std::optional<std::string> take_set(const std::string& word, std::vector<Override>& out) {
  const auto equals = word.find('=');
  const auto dot = word.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals) {
    return fmt::format("--set {}: write TABLE.KEY=VALUE, like limits.max_qp=64", word);
  }
  const std::string key = word.substr(0, equals);
  if (key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != std::string::npos) {
    return fmt::format("--set {}: '{}' cannot be a key; write TABLE.KEY=VALUE, like limits.max_qp=64", word, key);
  }
  if (key.starts_with("device.")) {
    return fmt::format("--set {}: device keys are not possible; use --address, --port-mtu, --vlan and --gateway", word);
  }
  out.push_back({fmt::format("--set {}", word), key, word.substr(equals + 1)});
  return std::nullopt;
}

std::optional<std::string> problem_of(const CommandLine& command) {
  const int jobs = (command.check ? 1 : 0) + (command.demo ? 1 : 0) + (command.config_file.empty() ? 0 : 1);
  if (jobs > 1) return "--config, --check and --demo exclude each other; give only one";
  if (command.replace && (command.check || command.demo)) {
    return "--replace takes over from a daemon with ports on interfaces; it goes with neither --check nor --demo";
  }
  if (command.supervise && (command.check || command.demo)) {
    return "--supervise starts a daemon again, with ports on interfaces; it goes with neither --check nor --demo";
  }
  if (command.demo && !command.interfaces.empty()) return "--demo needs no interface; leave --interface out";
  if (jobs == 0 && command.eal.empty() && command.interfaces.empty()) {
    return "there is no port to serve; give --interface NAME, --config FILE, or EAL arguments that name a port before "
           "`--`, or try uroced --demo";
  }
  return std::nullopt;
}

/// The command line's value of a setting holds for all ports, and goes before the file's tables.
void apply_to_ports(const settings::Row& row, const CommandLine& command, Config& config) {
  const settings::Value value = row.port.get(command.port);
  if (value != settings::Value()) {
    row.stack.set(config.stack, value);
    for (DeviceSettings& device : config.devices) row.port.set(device.port, value);
  }
  const std::string key = fmt::format("{}.{}", row.setting.table, row.setting.key);
  if (std::ranges::find(command.overrides, key, &Override::key) == command.overrides.end()) return;
  for (DeviceSettings& device : config.devices) row.port.set(device.port, {});
}

}  // namespace

std::expected<CommandLine, EarlyExit> parse_command_line(int argc, const char* const* argv) {
  CommandLine command;
  std::vector<std::string> sets;
  auto [eal, own] = glue::split_words(argc, argv);
  command.eal = std::move(eal);

  arguments::Program program(
      "uroced", fmt::format("uroced {}: serves RDMA devices on DPDK ports to the programs of this machine.", kVersion),
      "uroced [EAL arguments --]", "; EAL arguments go before `--`; see uroced --help");
  program.footer(footer());
  bool version = false;
  program.text("-c,--config", command.config_file, "Configuration file (TOML)");
  const arguments::Option check =
      program
          .text_or_none("--check", command.check_file,
                        "Report the faults of this file, if given, and the state of the cards, and end")
          .shown_as("[FILE]");
  program.flag("--demo", command.demo, "Two devices joined back to back, without hardware or configuration");
  std::string replace_when;
  const arguments::Option replace =
      program
          .text_or_none("--replace", replace_when,
                        "Take over from the daemon that runs on this socket, with the same ports, and end it; for "
                        "ports on interfaces that the kernel keeps. \"if-running\": or start, if there is none, and "
                        "stay when another one has taken over; for containers")
          .shown_as("[if-running]");
  program.flag("--supervise", command.supervise,
               "A small first process starts uroced again after a crash, with what its programs have, where no systemd "
               "does; \"--replace if-running\" implies it");
  program.texts("--set", sets, "Set TABLE.KEY=VALUE, in place of the file's value; may be repeated");
  std::vector<Override> keys;
  add_keys(program, keys);
  add_port_options(program, command);
  program.flag("-V,--version", version, "Print the version and exit");
  if (auto exit = program.parse(std::move(own))) return std::unexpected(std::move(*exit));
  command.check = check.given();
  command.replace = replace.given();
  command.replace_if_running = replace_when == "if-running";
  command.supervise = command.supervise || command.replace_if_running;
  if (!replace_when.empty() && !command.replace_if_running) {
    return refuse_usage(fmt::format("--replace '{}': it takes nothing, or \"if-running\"", replace_when));
  }
  if (version) return std::unexpected(EarlyExit{0, fmt::format("uroced {}\n{}", kVersion, glue::icrc_summary())});
  for (const std::string& word : sets) {
    if (const auto problem = take_set(word, command.overrides)) return refuse_usage(*problem);
  }
  std::ranges::move(keys, std::back_inserter(command.overrides));
  if (const auto problem = problem_of(command)) return refuse_usage(*problem);
  return command;
}

std::expected<Config, ConfigErrors> load_config(const CommandLine& command) {
  const std::string& file = command.check_file.empty() ? command.config_file : command.check_file;
  auto config = file.empty() ? read_config("", "", command.overrides) : read_config_file(file, command.overrides);
  if (!config) return config;
  config->stack.addresses = command.addresses;
  if (config->devices.size() < command.interfaces.size()) config->devices.resize(command.interfaces.size());
  std::ranges::transform(command.interfaces, config->devices, config->devices.begin(),
                         [](const std::string& name, DeviceSettings device) {
                           device.interface = name;
                           return device;
                         });
  config->stack.back_to_back = command.demo;
  for (const settings::Row& row : settings::rows()) {
    if (row.port) apply_to_ports(row, command, *config);
  }
  return config;
}

}  // namespace uroce::daemon
