// Child processes: the program, and a daemon that runs as long as it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace uroce::run {

/// A daemon that ends with this object, or with this process.
class DemoDaemon {
 public:
  /// Starts `program --demo --socket SOCKET`; its output goes to `log`. Throws std::runtime_error.
  DemoDaemon(const std::filesystem::path& program, const std::string& socket, const std::filesystem::path& log);
  DemoDaemon(const DemoDaemon&) = delete;
  DemoDaemon& operator=(const DemoDaemon&) = delete;
  ~DemoDaemon();
  /// False once the daemon has ended by itself.
  bool alive();

 private:
  pid_t pid_ = -1;
};

/// Signals that ask this process to end, or that programs give a meaning to, are kept for the program from here on.
/// Those that this process ignores stay ignored, in the program as well.
void hold_signals();
/// The signal that was kept; 0 when there is none.
int held_signal();

/// Descriptors that are watched while the program runs. `changed` is called when one is readable, until it returns
/// false.
struct Watch {
  std::vector<int> fds;
  std::function<bool()> changed;
};

/// Runs a program to its end, and passes on the signals that hold_signals() keeps. Returns its exit code, 128 + signal
/// when a signal ended it, 127 when it was not found, 126 when it could not be run.
int run_program(const std::vector<std::string>& command, const Watch& watch);

}  // namespace uroce::run
