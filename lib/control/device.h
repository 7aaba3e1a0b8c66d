// A device: one port's objects and the engines that serve them.
//
// pmd_glue makes one per port, runs its engines, and answers what only the owner of a port can.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>
#include <uroce/verbs.h>

#include "transport/engine.h"

namespace uroce::control {

/// What a device asks of whoever runs its engines and owns its port.
class DeviceHost {
 public:
  virtual ~DeviceHost() = default;
  /// Ends the sleep of an engine. Any thread; cheap when it is awake.
  virtual void wake(uint32_t engine) = 0;
  /// One step of waiting for an engine or the network: polls where the calling thread is the one that runs the
  /// engines, else gives the core away for a moment.
  virtual void wait_step() = 0;
  /// The Ethernet address of the next hop towards `dgid`, asked for on the wire when unknown. Blocks at most `timeout`.
  /// Errors: EHOSTUNREACH (nobody answers), ENETUNREACH (no route).
  virtual Result<EthAddr> resolve(const Gid& sgid, const Gid& dgid, std::chrono::nanoseconds timeout) = 0;
  virtual bool link_up() const = 0;
};

struct DeviceConfig {
  std::string name;
  std::string driver;
  EthAddr mac{};
  std::vector<Gid> gids;
  int vlan = 0;
  Mtu max_path_mtu = Mtu::mtu1024;
  uint32_t engines = 1;  ///< 1..64
  uint32_t max_qp = 16384;
  uint32_t max_mr = 65536;
  uint64_t seed = 0;  ///< for keys and first QPNs
};

}  // namespace uroce::control
