// One run of the daemon below its supervisor.
#pragma once

#include <csignal>
#include <string>

#include <sys/types.h>

namespace uroce::daemon {

struct SupervisedRun {
  std::string program;  ///< own_program() when the supervisor started; an upgrade may have put a newer one there
  std::string notify_socket;
  int estate = -1;  ///< what the run before left; negative: nothing
  bool again = false;
};

/// The file of this program. Empty: /proc is missing.
std::string own_program();
/// Starts the program in a child process, with the words of this one and `mask` of signals, as the leader of a process
/// group: all that it leaves behind is in that group. It is no copy of this process: a program that made one daemon
/// crash learns nothing about the addresses of the next. The child's id; negative: fork(2) failed.
pid_t start_supervised(const SupervisedRun& run, const sigset_t& mask);
/// The id of a process's parent; 0: no process has this id, or /proc is missing.
pid_t parent_of(pid_t process);

}  // namespace uroce::daemon
