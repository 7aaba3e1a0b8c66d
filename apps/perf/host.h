// The place of the devices: a stack in this process, or a daemon.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <uroce/cm.h>
#include <uroce/daemon.h>
#include <uroce/stack.h>

#include "perf/options.h"

namespace uroce::perf {

class Host {
 public:
  /// Starts the stack as the options say, or connects to the daemon. Errors: those of Stack::start(),
  /// daemon_devices().
  static Result<Host> start(const Options& options) {
    Host host;
    if (options.daemon) {
      host.daemon_.socket = options.socket;
      auto found = daemon_devices(host.daemon_);
      if (!found) return std::unexpected(found.error());
      for (const DeviceInfo& device : *found) host.names_.push_back(device.name);
      return host;
    }
    auto stack = Stack::start(options.eal, options.stack);
    if (!stack) return std::unexpected(stack.error());
    host.stack_.emplace(std::move(*stack));
    host.names_ = host.stack_->devices();
    return host;
  }

  const std::vector<std::string>& devices() const { return names_; }
  Result<Context> open(const std::string& name) {
    return stack_ ? stack_->open(name) : open_daemon_device(name, daemon_);
  }
  Result<ConnectionManager> connections() {
    return stack_ ? ConnectionManager::open(*stack_) : ConnectionManager::open(daemon_);
  }
  /// True when this thread runs the engines: it must then call poll() and idle(), and otherwise nobody.
  bool embedded() const { return stack_ && stack_->embedded(); }
  bool poll() { return stack_->poll(); }
  void idle(std::chrono::nanoseconds limit) { stack_->idle(limit); }

 private:
  std::optional<Stack> stack_;
  DaemonOptions daemon_;
  std::vector<std::string> names_;
};

}  // namespace uroce::perf
