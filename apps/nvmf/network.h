// The place of the RDMA devices and of their connection manager: the stack of this process, or a daemon.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <uroce/cm.h>
#include <uroce/daemon.h>
#include <uroce/verbs.h>

namespace uroce::nvmf {

/// One thread.
class Network {
 public:
  virtual ~Network() = default;
  virtual ConnectionManager& connections() = 0;
  virtual Result<Context> device(const std::string& name) = 0;
  /// One pass of the engines that run on this thread. True when there was work.
  virtual bool poll() = 0;
  /// After a pass without work: gives the core away, until something arrives if wakes(), and for at most `limit`.
  virtual void idle(std::chrono::nanoseconds limit) = 0;
  virtual bool wakes() const = 0;
};

/// Errors: those of ConnectionManager::open().
Result<std::unique_ptr<Network>> open_daemon_network(const DaemonOptions& daemon);

}  // namespace uroce::nvmf
