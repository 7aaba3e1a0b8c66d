#include <fmt/format.h>

#include "uroce/doctor.h"
#include "uroce/table.h"

namespace uroce::cli {

std::vector<Finding> judge_restart(const Facts& facts) {
  if (!facts.restart) return {};
  std::vector<Finding> out;
  for (const std::string& obstacle : facts.restart->obstacles) {
    const std::size_t end = obstacle.find("; ");
    out.push_back({"restart", Verdict::slow,
                   fmt::format("the next restart ends connections: {}", printable(obstacle.substr(0, end))),
                   end == std::string::npos ? "" : printable(obstacle.substr(end + 2))});
  }
  if (!out.empty()) return out;
  const char* const how = facts.restart->kept ? "by the service manager, too" : "by uroced --replace alone";
  return {{"restart", Verdict::good, fmt::format("queue pairs outlive the next restart, {}", how), ""}};
}

}  // namespace uroce::cli
