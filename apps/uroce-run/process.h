// Child processes: the program, and a daemon that runs as long as it.
#pragma once

#include <sys/types.h>

#include <filesystem>
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

/// Runs a program to its end, and passes on the signals that ask this process to end. Returns its exit code, 128 +
/// signal when a signal ended it, 127 when it was not found, 126 when it could not be run.
int run_program(const std::vector<std::string>& command);

}  // namespace uroce::run
