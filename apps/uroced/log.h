// The daemon's log: standard error, one line per message, as the journal or a terminal wants it.
#pragma once

#include <memory>

#include <spdlog/logger.h>

#include "uroced/settings.h"

namespace uroce::daemon {

/// Threads: any may log. On a terminal or in a file lines begin with the time; in the journal, which has its own, with
/// the level as sd-daemon(3) writes it.
std::shared_ptr<spdlog::logger> make_log(LogLevel level);
void set_level(spdlog::logger& log, LogLevel level);
/// As the socket server wants it. The log must outlive what is returned.
service::Log log_of(spdlog::logger& log);

}  // namespace uroce::daemon
