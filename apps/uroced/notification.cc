#include "uroced/notification.h"

#include <algorithm>
#include <array>

namespace uroce::daemon {

namespace {

constexpr std::array<std::string_view, 6> kForwarded = {"READY",    "STATUS",         "RELOADING",
                                                        "STOPPING", "MONOTONIC_USEC", "WATCHDOG"};

}  // namespace

Notification read_notification(std::string_view text, bool keeps) {
  Notification out;
  bool named = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    named = named || (key == "FDNAME" && value == kEstateName);
    out.keep = out.keep || (key == "FDSTORE" && value == "1");
    out.forget = out.forget || (key == "FDSTOREREMOVE" && value == "1");
    if (std::ranges::find(kForwarded, key) == kForwarded.end() || (key == "STOPPING" && keeps)) continue;
    if (!out.forwarded.empty()) out.forwarded += '\n';
    out.forwarded += line;
  }
  out.keep = out.keep && named;
  out.forget = out.forget && named;
  return out;
}

}  // namespace uroce::daemon
