#include "privilege/privilege.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "privilege/thread_call.h"

namespace uroce::privilege {

namespace {

constexpr Capabilities kNetAdmin = Capabilities{1} << CAP_NET_ADMIN;

using CapabilitySets = std::array<__user_cap_data_struct, 2>;

CapabilitySets read_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  CapabilitySets sets{};
  syscall(SYS_capget, &header, sets.data());
  return sets;
}

/// Sets those of the calling thread. The ambient set follows the inheritable one. Safe in a signal handler.
bool set_capabilities(Capabilities permitted) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  CapabilitySets sets{};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto word = static_cast<uint32_t>(permitted >> (32 * i));
    sets[i] = {.effective = word, .permitted = word, .inheritable = 0};
  }
  return syscall(SYS_capset, &header, sets.data()) == 0;
}

void drop_capabilities() { set_capabilities(0); }

void raise_limit(__rlimit_resource which, rlim_t value) {
  const rlimit limit{.rlim_cur = value, .rlim_max = value};
  setrlimit(which, &limit);
}

std::unexpected<Error> cannot_become(const Account& account, const char* call) {
  const int code = errno;
  return fail(code,
              fmt::format("cannot become user {} ({}): {}: {}", account.name, account.uid, call, std::strerror(code)));
}

/// glibc changes the ids of all threads.
Result<void> become(const Account& account, std::span<const gid_t> more_groups) {
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  if (getgrouplist(account.name.c_str(), account.gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    getgrouplist(account.name.c_str(), account.gid, groups.data(), &count);
  }
  groups.resize(static_cast<std::size_t>(count));
  groups.insert(groups.end(), more_groups.begin(), more_groups.end());
  if (setgroups(groups.size(), groups.data()) != 0) return cannot_become(account, "setgroups");
  if (setresgid(account.gid, account.gid, account.gid) != 0) return cannot_become(account, "setresgid");
  if (setresuid(account.uid, account.uid, account.uid) != 0) return cannot_become(account, "setresuid");
  return {};
}

}  // namespace

std::optional<Account> find_account(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const passwd* found = getpwnam(name.c_str());
  if (found == nullptr) return std::nullopt;
  return Account{.name = name, .uid = found->pw_uid, .gid = found->pw_gid};
}

Capabilities needed_to_close(std::span<const std::string> drivers) {
  // net_af_xdp detaches its program from the interface, net_tap gives a remote interface back.
  const bool changes_interfaces = std::ranges::any_of(
      drivers, [](const std::string& driver) { return driver == "net_af_xdp" || driver == "net_tap"; });
  return changes_interfaces ? kNetAdmin : 0;
}

void prepare_privileges() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (geteuid() != 0) return;
  constexpr rlim_t kAnyPriority = 40;  // nice -20, see RLIMIT_NICE in getrlimit(2)
  raise_limit(RLIMIT_NICE, kAnyPriority);
  raise_limit(RLIMIT_NPROC, RLIM_INFINITY);
  raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

Result<void> give_up_privileges(const std::optional<Account>& account, std::span<const gid_t> more_groups,
                                Capabilities kept) {
  const CapabilitySets had = read_capabilities();
  for (std::size_t i = 0; i < had.size(); ++i) {
    const auto lacking = static_cast<Capabilities>(~had[i].permitted) << (32 * i);
    kept &= ~lacking;
  }
  // Other threads lose theirs with the user id; the flag is the calling thread's own.
  if (kept != 0) prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  if (account) {
    if (auto done = become(*account, more_groups); !done) return done;
  }
  if (!set_capabilities(kept)) {
    const int code = errno;
    return fail(code, fmt::format("cannot give up capabilities: {}", std::strerror(code)));
  }
  prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
  return keep_capabilities_on_main_thread();
}

Result<void> keep_capabilities_on_main_thread() { return on_other_threads(drop_capabilities); }

}  // namespace uroce::privilege
