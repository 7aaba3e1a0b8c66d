// The choice of a daemon: for its devices (<uroce/daemon.h>) and its connections (<uroce/cm.h>). A plain
// value.
#pragma once

#include <string>

namespace uroce {

/// The daemon to talk to.
struct DaemonOptions {
  /// Path of its socket. When empty: the environment's UROCE_SOCKET, else /run/uroce/uroced.sock.
  std::string socket{};
};

}  // namespace uroce
