// The daemon's log: standard error, one line per message, as the journal or a terminal wants it.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "uroced/settings.h"

namespace uroce::daemon {

/// Threads: any may log. On a terminal or in a file lines begin with the time; in the journal, which has its own, with
/// the level as sd-daemon(3) writes it.
class Log {
 public:
  explicit Log(LogLevel level);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set_level(LogLevel level);
  void write(LogLevel level, std::string_view text);
  void flush();

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;  // only log.cc reads spdlog's headers
};

/// As the socket server wants it. The log must outlive what is returned.
service::Log log_of(Log& log);

}  // namespace uroce::daemon
