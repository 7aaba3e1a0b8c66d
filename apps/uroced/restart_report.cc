#include "uroced/restart_report.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>

#include "message/succession_messages.h"
#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

namespace {

/// A value of a file like /proc/meminfo, in KiB.
std::optional<uint64_t> kib_in(const char* file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string key; lines >> key; lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    uint64_t value = 0;
    if (key == name && lines >> value) return value;
  }
  return std::nullopt;
}

/// The descriptors for a successor are copies.
std::string descriptors_missing() {
  rlimit limit{};
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  if (error || getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const auto open = static_cast<uint64_t>(std::distance(begin(all), end(all)));
  if (2 * open <= limit.rlim_cur) return {};
  return fmt::format("the daemon has {} of {} descriptors, and needs as many again; raise the limit (LimitNOFILE)",
                     open, limit.rlim_cur);
}

/// Beside each other, two daemons need memory twice.
std::string memory_missing() {
  const auto mine = kib_in("/proc/self/status", "VmRSS:");
  const auto free = kib_in("/proc/meminfo", "MemAvailable:");
  if (!mine || !free || *mine <= *free) return {};
  return fmt::format("two daemons need {} MiB more, and {} MiB are available; end other programs", *mine >> 10,
                     *free >> 10);
}

}  // namespace

message::RestartRow restart_row(const Stack& stack, const TakenOver* last, bool kept) {
  message::RestartRow out{.kept = kept};
  if (last != nullptr) {
    out.last = {{"from_version", last->version},
                {"from_process", std::to_string(last->process)},
                {"seconds_ago", std::to_string((message::now_for_both_ns() - last->at_ns) / 1'000'000'000)},
                {"frozen_ms", std::to_string(last->frozen_ms)},
                {"queue_pairs", std::to_string(last->queue_pairs)},
                {"clients_refused", std::to_string(last->refused)}};
  }
  if (const auto facts = glue::StackAccess::facts(stack); !facts) out.obstacles.push_back(facts.error().text);
  for (const std::string& one : {descriptors_missing(), kept ? std::string() : memory_missing()}) {
    if (!one.empty()) out.obstacles.push_back(one);
  }
  return out;
}

}  // namespace uroce::daemon
