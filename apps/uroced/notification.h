// A message of sd_notify(3), as a supervisor takes it.
#pragma once

#include <string>
#include <string_view>

namespace uroce::daemon {

/// The descriptor that one run of the daemon leaves to the next.
inline constexpr const char* kEstateName = "uroce-estate";

struct Notification {
  bool keep = false;    ///< the message's descriptor is an estate
  bool forget = false;  ///< the estate kept so far is of no use any more
  /// Lines for the service manager above, or empty. That one has no descriptor from here, and its main process is the
  /// supervisor.
  std::string forwarded{};
};

/// `keeps`: an estate is kept, so that a run that stops is no end of the service.
Notification read_notification(std::string_view text, bool keeps);

}  // namespace uroce::daemon
