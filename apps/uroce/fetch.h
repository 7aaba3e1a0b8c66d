// Asking the daemon. All else in the tool only shows what comes back.
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "uroce/rows.h"

namespace uroce::cli {

/// Which daemon, and of which device; empty means the default socket, and all devices.
struct Source {
  std::string socket{};
  std::string device{};
};

/// Whether this build's daemon tells of more than its devices. Without it `show`, `stat` and `top` are not offered.
inline constexpr bool kObjectsListed = false;

// Errors: those of daemon_devices() in uroce/daemon.h, and ENODEV (no such device).
Result<std::vector<DeviceRow>> fetch_devices(const Source& source);
Result<std::vector<QpRow>> fetch_qps(const Source& source);
Result<std::vector<MrRow>> fetch_mrs(const Source& source);
Result<std::vector<CqRow>> fetch_cqs(const Source& source);
Result<std::vector<ClientRow>> fetch_clients(const Source& source);
Result<std::vector<CounterRow>> fetch_counters(const Source& source);

}  // namespace uroce::cli
