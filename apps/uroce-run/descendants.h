// Programs that the command has started, and that outlive it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <vector>

namespace uroce::run {

/// From now on a program whose parent ends becomes a child of this process, so that is_descendant() still knows it.
void adopt_orphans();

/// Whether this process, or one that it started, has started the other.
bool is_descendant(pid_t pid);

struct Ended {
  pid_t pid = 0;
  int signal = 0;  ///< SIGTERM, or SIGKILL; 0: it ended before
};
/// Ends the descendants among these processes: by SIGTERM, and those that go on for 2 s by SIGKILL. Others are left
/// alone, and are not in the result.
std::vector<Ended> end_descendants(const std::vector<pid_t>& pids);

}  // namespace uroce::run
