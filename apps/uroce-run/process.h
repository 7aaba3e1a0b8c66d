// Child processes: the program, and a daemon that outlives this process while others need it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "message/socket_lock.h"

namespace uroce::run {

/// A daemon that this process started, and that ends by itself once nobody needs it.
class DemoDaemon {
 public:
  /// Starts `program --demo --socket SOCKET` with these options, and leaves the right to the socket to it. Its output
  /// goes to `log`. Throws std::runtime_error.
  DemoDaemon(const std::filesystem::path& program, message::SocketOwner owner, const std::filesystem::path& log,
             const std::vector<std::string>& options);
  /// False once the daemon has ended.
  bool alive();
  /// Asks it to end, and kills one that does not within 5 s.
  void end();
  /// For one that does not serve.
  void kill();

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
/// when a signal ended it, 127 when it was not found, 126 when it could not be run. The program does not outlive this
/// process. `reaps`: this process adopts orphans (adopt_orphans()), which it reaps meanwhile.
int run_program(const std::vector<std::string>& command, std::vector<Watch> watches, bool reaps);

}  // namespace uroce::run
