// Opens devices of the daemon (uroced). Objects and calls are the same as for a device in this process. A program that
// uses only this header links liburoce_client, which has no DPDK.
#pragma once

#include <string>
#include <vector>

#include <uroce/daemon_options.h>
#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/verbs.h>

namespace uroce {

/// The daemon's devices, "uroce0" first. Any thread.
/// Errors: ENOENT (no daemon at that path; the text says how to start one), EACCES (the socket's mode forbids it),
/// EPROTONOSUPPORT (no version in common; the text says which side to upgrade), ENOMEM (daemon.max_clients reached),
/// ETIMEDOUT.
UROCE_API Result<std::vector<DeviceInfo>> daemon_devices(const DaemonOptions& options = {});

/// Opens the device `name` over a connection of its own. Any thread. When the daemon ends, calls fail with EIO and
/// the last asynchronous event is a device_fatal. Errors: those of daemon_devices(), and ENODEV (no such device).
UROCE_API Result<Context> open_daemon_device(const std::string& name, const DaemonOptions& options = {});

}  // namespace uroce
