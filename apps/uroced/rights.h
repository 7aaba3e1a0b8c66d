// The rights that the daemon gives up once its ports and its socket are open.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <uroce/error.h>

#include "privilege/privilege.h"
#include "uroced/log.h"
#include "uroced/settings.h"

namespace uroce::daemon {

/// The main thread's.
class Rights {
 public:
  /// The arguments outlive this. Errors: EINVAL (privilege.user is nobody's own user).
  static Result<Rights> plan(const Config& config, Log& log);

  /// The folder's owner may remove the socket at the end. A folder that exists stays as it is.
  void make_folder_of_socket() const;
  /// Ports of these drivers need rights at the end, which stay.
  void keep_for(std::span<const std::string> drivers) { kept_ = privilege::needed_to_close(drivers); }
  /// All ports and the socket are open, and no client is served. Errors: those of give_up_privileges().
  Result<void> give_up() const;
  /// Once the server's threads have inherited what was kept. Errors: those of keep_capabilities_on_main_thread().
  Result<void> leave_to_main_thread() const;

 private:
  Rights(const Config& config, Log& log) : config_(&config), log_(&log) {}
  /// Root that is told to stay root keeps everything.
  bool may_give_up() const;

  const Config* config_;
  Log* log_;
  std::optional<privilege::Account> account_{};
  privilege::Capabilities kept_ = 0;  ///< to close the ports
};

}  // namespace uroce::daemon
