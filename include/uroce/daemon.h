// Opening a device of the daemon (uroced). The calls and objects are those of an in-process device; what links this
// needs no DPDK.
#pragma once

#include <string>
#include <vector>

#include <uroce/export.h>
#include <uroce/verbs.h>

namespace uroce {

/// Which daemon.
struct DaemonOptions {
  /// Path of its socket; empty takes the environment's UROCE_SOCKET, else /run/uroce/uroced.sock.
  std::string socket{};
};

/// The devices that the daemon serves, "uroce0" first. Any thread. Errors: ENOENT (no daemon there; the text says how
/// to start one), EACCES (the socket's mode), EPROTO (another version; the text says which side to upgrade), ENOMEM
/// (the daemon's limit of clients).
UROCE_API Result<std::vector<DeviceInfo>> daemon_devices(const DaemonOptions& options = {});

/// Opens one by name over a connection of its own. Any thread. When the daemon goes, calls fail with ENODEV, and the
/// asynchronous events end with one port_error. Errors: as daemon_devices(), and ENODEV (no such device).
UROCE_API Result<Context> open_daemon_device(const std::string& name, const DaemonOptions& options = {});

}  // namespace uroce
