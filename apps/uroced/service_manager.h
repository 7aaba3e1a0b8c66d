// The service manager that started this daemon, if one did: systemd, or another that speaks the protocol of
// sd_notify(3).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include <uroce/error.h>

#include "message/connection.h"
#include "uroced/log.h"
#include "uroced/watchdog.h"

namespace uroce::daemon {

/// The main thread's. Without a service manager every call does nothing.
class ServiceManager {
 public:
  /// Takes the descriptors that the service manager passes (sd_listen_fds(3)), and removes them from the environment.
  ServiceManager();

  void ready(const std::string& status);
  void reloading();
  void reloaded();
  void stopping();
  /// Another process is the service from now on.
  void main_process(pid_t process);

  /// Watches the engines from now on, if the service manager asks for that.
  void start_watchdog();
  /// How long until feed_watchdog() is due; negative: never.
  std::chrono::milliseconds time_to_look() const;
  /// `rounds`: of each engine so far.
  void feed_watchdog(std::span<const uint64_t> rounds, Log& log);

  /// Whether it keeps a descriptor from one run of the service to the next. It says so in FDSTORE, or the unit does
  /// where systemd is older than 254.
  bool keeps() const { return keeps_; }
  /// Passes `fd` to the next run of the service. Once this returns without an error the service manager has it. Errors:
  /// those of sd_notify(3); ETIMEDOUT.
  Result<void> keep(int fd);
  /// The descriptor that the run before passed; once.
  message::Fd take_kept() { return std::move(kept_); }
  /// The service manager closes its own copy, some time later.
  void forget();
  /// As forget(), and returns once it has. Errors: those of sd_notify(3); ETIMEDOUT.
  Result<void> forget_now();

 private:
  bool keeps_ = false;
  message::Fd kept_;
  std::optional<Watchdog> watchdog_;
};

}  // namespace uroce::daemon
