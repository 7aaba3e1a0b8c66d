#include "nvmf/rights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "privilege/devices.h"
#include "privilege/privilege.h"
#include "privilege/system_calls.h"

namespace uroce::nvmf {

Result<void> give_up_rights(const Options& options, const Network& network) {
  auto account = geteuid() == 0 ? privilege::find_account(options.user) : std::nullopt;
  if (account && account->uid == 0) account.reset();
  // Root that is told to stay root keeps everything.
  if (account || geteuid() != 0) {
    const auto kept = privilege::needed_to_close(network.drivers());
    if (auto done = privilege::give_up_privileges(account, {}, kept); !done) {
      return fail(done.error().code, done.error().text + (account ? "; --user \"\" stays root" : ""));
    }
  }
  if (account) {
    fmt::print("uroce_nvmf: running as user {}\n", account->name);
  } else if (geteuid() == 0 && !options.user.empty()) {
    fmt::print("uroce_nvmf: staying root, since this machine has no user {} (--user)\n", options.user);
  }
  // The unit's group has every disk. Only those that are open are the program's.
  if (auto denied = privilege::deny_devices(); !denied) fmt::print(stderr, "uroce_nvmf: {}\n", denied.error().text);
  // A client of the daemon shares its memory with calls that the filter has no rule for (lib/sharing).
  if (!options.filter || options.daemon) return {};
  // The rings of the disks exist. No other can be made.
  constexpr const char* kRings[] = {"io_uring_enter"};
  if (auto limited = privilege::limit_system_calls(kRings); !limited) {
    fmt::print(stderr, "uroce_nvmf: {}; --no-seccomp does without\n", limited.error().text);
  }
  return {};
}

}  // namespace uroce::nvmf
