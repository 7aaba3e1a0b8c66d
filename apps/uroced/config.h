// Reads the daemon's settings: defaults, the file, overrides of the command line. Says what of a change applies at run
// time.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "uroced/settings.h"

namespace uroce::daemon {

/// A setting from outside the file.
struct Override {
  std::string source;  ///< where it was written, for messages: "--socket"
  std::string key;     ///< "daemon.socket"
  std::string value;   ///< as in the file; a string may go without its quotes
};

/// Each a sentence: where (file:line:column), which key, its value, what is possible.
using ConfigErrors = std::vector<std::string>;

/// Defaults, then `text` (TOML), then `overrides` in order. All errors are found, in the order of the file.
std::expected<Config, ConfigErrors> read_config(std::string_view text, const std::string& source,
                                                const std::vector<Override>& overrides = {});
/// As above with the contents of a file; errors also: it cannot be read, or is larger than 1 MiB.
std::expected<Config, ConfigErrors> read_config_file(const std::string& path,
                                                     const std::vector<Override>& overrides = {});

struct Change {
  std::string key;  ///< "limits.max_qp", "device[1].mtu"
  std::string before, after;
  bool live = false;  ///< can be applied to a running daemon
};
std::vector<Change> changes_between(const Config& before, const Config& after);
/// Takes from `after` what can change at run time, so that `running` is again what runs.
void apply_live(Config& running, const Config& after);

}  // namespace uroce::daemon
