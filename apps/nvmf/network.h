// The place of the RDMA devices and of their connection manager.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <uroce/cm.h>
#include <uroce/daemon.h>
#include <uroce/verbs.h>

namespace uroce::nvmf {

struct NetworkSettings {
  std::string socket{};  ///< of the daemon; empty: its usual one
};

class Network {
 public:
  /// Errors: those of ConnectionManager::open().
  static Result<Network> open(const NetworkSettings& settings);

  ConnectionManager& connections() { return connections_; }
  Result<Context> device(const std::string& name) { return open_daemon_device(name, daemon_); }
  /// One pass of the engines, where they run on this thread. True when there was work.
  bool poll() { return false; }
  /// After a pass without work: gives the core away for at most `limit`.
  void idle(std::chrono::nanoseconds limit);

 private:
  Network(DaemonOptions daemon, ConnectionManager connections)
      : daemon_(std::move(daemon)), connections_(std::move(connections)) {}

  DaemonOptions daemon_;
  ConnectionManager connections_;
};

}  // namespace uroce::nvmf
