// Asks the daemon. The rest of the tool only shows the replies.
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "metrics/page.h"
#include "uroce/rows.h"

namespace uroce::cli {

/// The daemon and the device to ask for; empty means the default socket, and all devices.
struct Source {
  std::string socket{};
  std::string device{};
  bool own = false;  ///< with this program's own connections and their objects
};

/// Errors: ESRCH (the daemon is in another PID namespace), and those of connect(2).
Result<void> find_here(const Source& source);
// Errors: those of daemon_devices() in uroce/daemon.h, and ENODEV (no such device).
Result<std::vector<DeviceRow>> fetch_devices(const Source& source);
/// `kind`: qp, mr or cq.
Result<std::vector<ObjectRow>> fetch_objects(const Source& source, message::Kind kind);
/// Errors: EOPNOTSUPP (the daemon is older).
Result<RestartRow> fetch_restart(const Source& source);
/// All connections but this program's own.
Result<std::vector<ClientRow>> fetch_clients(const Source& source);
/// The rows are in order. A number of no process may be a queue pair's.
Result<std::vector<message::HistoryRow>> fetch_history(const Source& source, message::ListHistory request);
/// All users that have connections, this program's included.
Result<std::vector<UserRow>> fetch_users(const Source& source);
/// As root or the daemon's user; others get EPERM.
Result<std::vector<PeerRow>> fetch_peers(const Source& source);
// As root or the daemon's user; others get EPERM. Errors: EOPNOTSUPP (the daemon is older), and those of
// service::Faults.
Result<std::vector<FaultRow>> fetch_faults(const Source& source);
Result<message::AddedFaults> add_faults(const Source& source, const message::AddFaults& request);
/// `number` 0: all.
Result<void> clear_faults(const Source& source, uint32_t number);
Result<std::vector<EngineRow>> fetch_engines(const Source& source);
/// Everything on the page of metrics that the user may see.
Result<metrics::State> fetch_state(const Source& source);
Result<std::vector<CounterRow>> fetch_counters(const Source& source);

}  // namespace uroce::cli
