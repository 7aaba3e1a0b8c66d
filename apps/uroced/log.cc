#include "uroced/log.h"

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

}  // namespace

std::shared_ptr<spdlog::logger> make_log(LogLevel level) {
  auto log = std::make_shared<spdlog::logger>("uroced", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  if (stderr_is_journal()) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JournalPrefix>('*').set_pattern("%*%v");
    log->set_formatter(std::move(formatter));
  } else {
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e uroced %^%l%$: %v");
  }
  set_level(*log, level);
  return log;
}

void set_level(spdlog::logger& log, LogLevel level) {
  switch (level) {
    case LogLevel::debug: return log.set_level(spdlog::level::debug);
    case LogLevel::info: return log.set_level(spdlog::level::info);
    case LogLevel::warning: return log.set_level(spdlog::level::warn);
    case LogLevel::error: return log.set_level(spdlog::level::err);
  }
}

service::Log log_of(spdlog::logger& log) {
  return [&log](service::Severity severity, std::string_view text) {
    switch (severity) {
      case service::Severity::info: return log.info("{}", text);
      case service::Severity::warning: return log.warn("{}", text);
      case service::Severity::error: return log.error("{}", text);
    }
  };
}

}  // namespace uroce::daemon
