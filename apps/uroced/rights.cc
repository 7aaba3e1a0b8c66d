#include "uroced/rights.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "privilege/system_calls.h"
#include "uroced/keeper.h"

namespace uroce::daemon {

namespace {

/// The uid of users whom the daemon's user namespace does not know, by default (/proc/sys/kernel/overflowuid).
constexpr uid_t kOverflowUid = 65534;

}  // namespace

Result<Rights> Rights::plan(const Config& config, Log& log) {
  Rights rights(config, log);
  auto account = geteuid() == 0 ? privilege::find_account(config.privilege.user) : std::nullopt;
  if (account && account->uid == 0) account.reset();
  if (account && account->uid == kOverflowUid) {
    return fail(EINVAL, fmt::format("privilege.user is {} ({}), for which the kernel takes every user of other "
                                    "namespaces; choose a user that is the daemon's alone",
                                    account->name, account->uid));
  }
  rights.account_ = std::move(account);
  return rights;
}

bool Rights::may_give_up() const { return account_ || geteuid() != 0; }

void Rights::make_folder_of_socket() const {
  if (!account_) return;
  const auto folder = std::filesystem::path(config_->server.socket).parent_path();
  std::error_code error;
  if (!std::filesystem::create_directories(folder, error)) return;  // the server reports the error
  if (chown(folder.c_str(), account_->uid, account_->gid) != 0)
    log_->warn("cannot give {} to {}", folder.string(), account_->name);
}

Result<void> Rights::give_up() const {
  std::vector<gid_t> groups;
  if (config_->server.group) groups.push_back(*config_->server.group);
  if (may_give_up()) {
    if (auto done = privilege::give_up_privileges(account_, groups, kept_); !done) {
      if (!account_) return done;
      return fail(done.error().code, done.error().text + "; set privilege.user to \"\" to stay root");
    }
  }
  if (account_) {
    log_->info("running as user {}", account_->name);
  } else if (geteuid() == 0 && !config_->privilege.user.empty()) {
    log_->info("staying root, since this machine has no user {} (privilege.user)", config_->privilege.user);
  }
  if (!config_->privilege.seccomp) return {};
  constexpr const char* kMore[] = {"wait4"};
  constexpr int kProcesses[] = {Keeper::kCloneFlags};
  if (auto limited = privilege::limit_system_calls(kMore, kProcesses); !limited) {
    log_->warn("{}; set privilege.seccomp to false", limited.error().text);
  }
  return {};
}

Result<void> Rights::leave_to_main_thread() const {
  if (kept_ != 0 && may_give_up()) return privilege::keep_capabilities_on_main_thread();
  return {};
}

}  // namespace uroce::daemon
