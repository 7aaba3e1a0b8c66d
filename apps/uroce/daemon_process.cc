#include "uroce/daemon_process.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace uroce::cli {

std::optional<StoppedProcess> stopped_process(std::string_view stat) {
  // "12 (name) T 1 ...", and the name may have brackets.
  const auto bracket = stat.rfind(") ");
  if (bracket == stat.npos || bracket + 2 >= stat.size()) return std::nullopt;
  const char state = stat[bracket + 2];
  if (state != 'T' && state != 't') return std::nullopt;
  return StoppedProcess{.id = std::atoi(std::string(stat.substr(0, stat.find(' '))).c_str()), .traced = state == 't'};
}

std::optional<StoppedProcess> stopped_process(int id) {
  if (id <= 0) return std::nullopt;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", id)), line);
  return stopped_process(std::string_view(line));
}

std::string waiting_text(std::string_view socket, int process, const std::optional<StoppedProcess>& stopped,
                         int seconds) {
  std::string who;
  if (process > 0) {
    who = fmt::format(" (process {}{})", process,
                      !stopped          ? ""
                      : stopped->traced ? ", stopped by a debugger"
                                        : ", stopped");
  }
  return fmt::format("waiting for the uroce daemon at {}{}: up to {} s", socket, who, seconds);
}

Error daemon_ended(std::string_view what) {
  return {EIO,
          fmt::format("the uroce daemon has ended, and {} with it; its log says why. Begin again when it runs", what)};
}

}  // namespace uroce::cli
