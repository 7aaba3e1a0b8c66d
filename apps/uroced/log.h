// The daemon's log: one line for each message on standard error, in the form of the journal or a terminal.
#pragma once

#include <memory>

#include <spdlog/logger.h>

#include "uroced/settings.h"

namespace uroce::daemon {

/// Any thread may log. On a terminal or in a file a line begins with the time. In the journal, which has its own times,
/// it begins with the level of sd-daemon(3).
std::shared_ptr<spdlog::logger> make_log(LogLevel level);
void set_level(spdlog::logger& log, LogLevel level);
/// The log as the socket server's callback. The log must outlive it.
service::Log log_of(spdlog::logger& log);

}  // namespace uroce::daemon
