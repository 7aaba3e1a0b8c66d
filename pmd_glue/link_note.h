// Tells people about a port's link, at most once a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace uroce::glue {

/// One thread at a time.
class LinkNote {
 public:
  static constexpr Nanos kInterval = std::chrono::seconds(1);  ///< between two lines

  /// The link is `up` at `now`. The line that is due; the first state is no news.
  std::optional<std::string> look(const std::string& name, bool up, Nanos now);
  /// When look() has something to say that nothing else wakes its caller for; kNever for nothing.
  Nanos next_deadline() const { return changes_ != 0 ? quiet_until_ : kNever; }

 private:
  std::optional<bool> told_;
  bool last_ = false;
  uint32_t changes_ = 0;  ///< since the last line
  Nanos quiet_until_{0};
};

}  // namespace uroce::glue
