// The daemon as a process: whether it runs, stands still or has ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <uroce/error.h>

namespace uroce::cli {

/// A process that SIGSTOP, a terminal or a debugger has stopped.
struct StoppedProcess {
  int id = 0;
  bool traced = false;  ///< by a debugger; SIGCONT does not help
};

/// Reads /proc/PID/stat's text (proc(5)). Unset: the process runs, or the text is not of that form.
std::optional<StoppedProcess> stopped_process(std::string_view stat);
/// Of a process id; 0 is no process.
std::optional<StoppedProcess> stopped_process(int id);

/// "waiting for the uroce daemon at SOCKET (process 12, stopped): up to 30 s".
std::string waiting_text(std::string_view socket, int process, const std::optional<StoppedProcess>& stopped,
                         int seconds);
/// EIO, for something that has ended because the daemon has.
Error daemon_ended(std::string_view what);

}  // namespace uroce::cli
