// The daemon that serves the command: one that runs, or `uroced --demo`, which one uroce-run starts for all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "message/socket_lock.h"
#include "places.h"
#include "process.h"
#include "verbs_library.h"

namespace uroce::run {

/// Keeps a daemon that uroce-run started, while this object lives.
class DaemonUse {
 public:
  enum class Kept {
    yes,
    no_need,  ///< a user started it, or there is none
    ending,   ///< nobody needed it any more
  };
  Kept keep(const std::string& socket);

 private:
  message::LockFile file_;
};

/// The environment's, or the default one.
std::string socket_in_use();

/// Whether the daemon that broke a connection off has ended, as one that was killed does: a moment may pass between the
/// two. True also where its lock and its socket are gone. False for one that lives, and where nothing tells.
bool ended_meanwhile(const std::string& socket);

/// Sets the environment's UROCE_SOCKET if it is not set: the default one where it can be created, else one of this
/// user's. Throws std::runtime_error.
void choose_demo_socket();

struct DaemonStart {
  std::filesystem::path folder;        ///< for its output
  std::filesystem::path faults{};      ///< its rules: it must be the one that starts; empty: none
  std::vector<std::string> options{};  ///< more, for the one that starts
  bool aloud = true;                   ///< says on stderr that it started one; the rules' seeds stand there always
  /// Root's daemon stays root. In a container it may lack the right to become another user, and for the command alone
  /// it need not.
  bool keeps_user = false;
};
/// Makes a daemon answer at that socket: waits for one that is starting or ending, and starts one where there is none.
/// Returns early when a signal is held, and what it started, if anything. Throws std::runtime_error.
std::optional<DemoDaemon> bring_up_daemon(DaemonUse& use, const Places& places, const VerbsLibrary& verbs,
                                          const DaemonStart& how);
/// Fault rules cannot be given to a daemon that is there.
[[noreturn]] void refuse_faults(const std::filesystem::path& faults);

}  // namespace uroce::run
