// The daemon's settings with their defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <uroce/stack.h>

#include "service/server.h"

namespace uroce::daemon {

enum class LogLevel { debug, info, warning, error };

/// One port and the device on it; unset keeps the stack's default.
struct DeviceSettings {
  std::string addresses{};  ///< as in StackOptions::addresses
  std::optional<int> mtu{};
  std::optional<int> vlan{};
  std::optional<std::string> gateway{};
  std::optional<Retransmission> retransmission{};
  std::optional<CongestionAlgorithm> congestion_control{};
  std::optional<int> udp_source_ports{};  ///< 0: as [engines] says
};

struct Config {
  service::ServerConfig server{};
  std::string group{};  ///< as written; server.group is what it means here
  LogLevel log_level = LogLevel::info;
  StackOptions stack{};  ///< [engines], [dcqcn], [swift]; of the ports only what the command line says for all of them
  std::string lcores{};  ///< EAL's --lcores; empty leaves it to the arguments
  std::vector<std::string> eal{};  ///< EAL arguments, used when the command line has none
  std::vector<DeviceSettings> devices{};

  /// With the settings of the devices.
  StackOptions stack_options() const;
};

}  // namespace uroce::daemon
