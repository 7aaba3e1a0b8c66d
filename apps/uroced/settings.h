// The daemon's settings with their defaults.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/stack.h>

#include "service/server.h"

namespace uroce::daemon {

enum class LogLevel { debug, info, warning, error };
inline constexpr std::array<std::pair<std::string_view, LogLevel>, 4> kLogLevelNames{{
    {"debug", LogLevel::debug},
    {"info", LogLevel::info},
    {"warning", LogLevel::warning},
    {"error", LogLevel::error},
}};
inline const auto& names_of(LogLevel) { return kLogLevelNames; }

/// Settings of one port and its device. Unset members keep the stack's default.
struct DeviceSettings {
  std::string interface{};  ///< of the kernel, on which the port is; empty: a port of EAL's
  std::string addresses{};  ///< as in StackOptions::addresses
  PortSettings port{};
  bool answer_pings = true;  ///< if Config::answer_pings is, too
};

/// Rights that the daemon gives up once its ports are open.
struct PrivilegeSettings {
  std::string user = "uroce";  ///< root becomes this user; empty, or unknown to this machine: it stays root
  bool seccomp = true;         ///< refuse system calls that a running daemon does not make
};

struct Config {
  service::ServerConfig server{};
  PrivilegeSettings privilege{};
  std::string metrics_listen{};  ///< address and port; empty: metrics are not served
  bool answer_pings = true;      ///< those of `uroce ping`, without a program
  std::string group{};           ///< as written; server.group is its number
  bool crash_recovery = true;    ///< clients outlive a crash, where somebody starts the daemon again
  LogLevel log_level = LogLevel::info;
  StackOptions stack{};            ///< [engines], [dcqcn], [swift], and options of the command line for all ports
  std::string lcores{};            ///< EAL's --lcores; empty: the EAL arguments decide
  std::vector<std::string> eal{};  ///< EAL arguments, used when the command line has none
  std::vector<DeviceSettings> devices{};

  /// EAL's arguments for the ports on interfaces of the kernel, in the devices' order.
  std::vector<std::string> interface_arguments() const;
  /// The stack's options with the settings of the devices. EAL's ports come first, as in the stack.
  StackOptions stack_options() const;
  /// Whether the device of each port answers pings; of `ports` ports, in the stack's order.
  std::vector<bool> pings_answered(std::size_t ports) const;
};

}  // namespace uroce::daemon
