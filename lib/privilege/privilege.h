// A program becomes an ordinary user once its ports are open. Only opening needs privilege: config/rights.md lists what
// each driver needs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>

namespace uroce::privilege {

/// A user of this machine.
struct Account {
  std::string name{};
  uid_t uid = 0;
  gid_t gid = 0;
};

/// nullopt when there is none of that name. The main thread.
std::optional<Account> find_account(const std::string& name);

/// Capabilities, a bit each (CAP_NET_ADMIN and its like of linux/capability.h).
using Capabilities = uint64_t;
/// The rights that closing ports of these drivers needs.
Capabilities needed_to_close(std::span<const std::string> drivers);

/// Call it before any thread starts. From then on no program that the process could start gains privilege. As root,
/// also raises the limits that do not bind root, but will bind the user that it becomes: threads, locked memory,
/// priority.
void prepare_privileges();

/// All threads become `account`, with its groups and `more_groups`, and lose every capability. Of those that the main
/// thread has, it keeps `kept`. An unset account changes no user, and capabilities go all the same.
/// The main thread. On failure the process has lost some of its rights and must end. Errors: EPERM and others of
/// setresuid(2) and setgroups(2), those of on_other_threads().
Result<void> give_up_privileges(const std::optional<Account>& account, std::span<const gid_t> more_groups,
                                Capabilities kept);
/// Takes the capabilities of all threads but the main one. Threads inherit them from the thread that starts them.
Result<void> keep_capabilities_on_main_thread();

}  // namespace uroce::privilege
