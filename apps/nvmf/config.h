// The configuration file of uroce_nvmf. config/nvmf.toml is a sample.
//
//   interface = "eth0"                                   # or ["eth0", "eth1"]; left out: the daemon's devices
//   listen = ["192.0.2.1"]                               # left out: every address
//   lcores = "1-2"                                       # left out: one CPU
//
//   [[subsystem]]
//   nqn = "nqn.2024-01.org.example:disks"
//   namespaces = ["/dev/sdb", "/srv/disk.img", "memory:1G"]
//   hosts = ["nqn.2014-08.org.nvmexpress:uuid:..."]      # left out: every host
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "nvmf/subsystem.h"

namespace uroce::nvmf {

/// "memory:SIZE[K|M|G|T]" or a path. Errors: EINVAL (the size).
Result<NamespaceSettings> parse_namespace(const std::string& text);

struct Config {
  std::vector<std::string> interfaces{};  ///< of the kernel, as the ports; empty where the file names none
  std::vector<std::string> listen{};      ///< addresses; empty where the file names none
  std::string lcores{};                   ///< EAL's --lcores; empty where the file names none
  std::vector<SubsystemSettings> subsystems{};
};

/// Errors: ENOENT and the like; EINVAL, with the line and what can be written there.
Result<Config> read_config(const std::string& path);

}  // namespace uroce::nvmf
