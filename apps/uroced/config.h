// Reads the daemon's settings: defaults, the file, overrides of the command line. Finds the changes between two
// readings, and those that apply at run time.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "uroced/settings.h"

namespace uroce::daemon {

/// A setting from outside the file.
struct Override {
  std::string source;  ///< its origin, for messages: "--socket"
  std::string key;     ///< "daemon.socket"
  std::string value;   ///< as in the file; a string may lack its quotes
};

/// One sentence each: file:line:column, key, value, possible values.
using ConfigErrors = std::vector<std::string>;

/// Applies `text` (TOML) to the defaults, then `overrides` in order. Finds all errors, in the order of the file.
std::expected<Config, ConfigErrors> read_config(std::string_view text, const std::string& source,
                                                const std::vector<Override>& overrides = {});
/// The same for a file. It is also an error when the file cannot be read or is larger than 1 MiB.
std::expected<Config, ConfigErrors> read_config_file(const std::string& path,
                                                     const std::vector<Override>& overrides = {});

struct Change {
  std::string key;  ///< "limits.max_qp", "device[1].mtu"
  std::string before, after;
  bool live = false;  ///< a running daemon can apply it
};
std::vector<Change> changes_between(const Config& before, const Config& after);
/// Copies the settings that can change at run time from `after` to `running`.
void apply_live(Config& running, const Config& after);

}  // namespace uroce::daemon
