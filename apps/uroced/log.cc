#include "uroced/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace uroce::daemon {

namespace {

/// "<6>" and its like: sd-daemon(3).
class JournalPrefix final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view prefix = of(message.level);
    out.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JournalPrefix>(); }

 private:
  static std::string_view of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::trace:
      case spdlog::level::debug: return "<7>";
      case spdlog::level::info: return "<6>";
      case spdlog::level::warn: return "<4>";
      default: return "<3>";
    }
  }
};

/// systemd.exec(5): JOURNAL_STREAM names the device and inode of the stream that goes to the journal.
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status{};
  if (stream == nullptr || fstat(STDERR_FILENO, &status) != 0) return false;
  return std::string(stream) == fmt::format("{}:{}", status.st_dev, status.st_ino);
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: break;
  }
  return spdlog::level::err;
}

}  // namespace

struct Log::Sink {
  spdlog::logger logger{"uroced", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
};

Log::Log(LogLevel level) : sink_(std::make_unique<Sink>()) {
  if (stderr_is_journal()) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JournalPrefix>('*').set_pattern("%*%v");
    sink_->logger.set_formatter(std::move(formatter));
  } else {
    sink_->logger.set_pattern("%Y-%m-%d %H:%M:%S.%e uroced %^%l%$: %v");
  }
  set_level(level);
}

Log::~Log() = default;

void Log::set_level(LogLevel level) { sink_->logger.set_level(level_of(level)); }

void Log::write(LogLevel level, std::string_view text) {
  sink_->logger.log(level_of(level), spdlog::string_view_t(text.data(), text.size()));
}

void Log::flush() { sink_->logger.flush(); }

service::Log log_of(Log& log) {
  return [&log](service::Severity severity, std::string_view text) {
    switch (severity) {
      case service::Severity::debug: return log.write(LogLevel::debug, text);
      case service::Severity::info: return log.write(LogLevel::info, text);
      case service::Severity::warning: return log.write(LogLevel::warning, text);
      case service::Severity::error: return log.write(LogLevel::error, text);
    }
  };
}

}  // namespace uroce::daemon
