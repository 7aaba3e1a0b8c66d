#include "uroced/socket_right.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace uroce::daemon {

namespace {

using message::LockByte;
using message::LockFile;
using message::LockKind;
using message::SocketOwner;
using Clock = std::chrono::steady_clock;

/// A daemon that is starting looks for claims once its ports are open, and one without programs ends its connections.
constexpr std::chrono::seconds kWait{60};
constexpr std::chrono::milliseconds kLook{20};

/// The lock that uroce-run took for this process. A lock that has gone meanwhile, with the folder of the socket, is an
/// error: a daemon on another one would never end.
Result<SocketOwner> inherited(const std::string& socket, std::string_view digits) {
  int fd = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  unsetenv("UROCED_LOCK");
  auto owner = SocketOwner::adopt(socket, fd);
  if (!owner) return owner;
  owner->file().write_holder({.process = getpid(), .of_uroce_run = true});
  return owner;
}

}  // namespace

Result<SocketRight> SocketRight::take(const std::string& socket, Signals& signals, Log& log) {
  if (const char* const lock = std::getenv("UROCED_LOCK")) {
    auto owner = inherited(socket, std::string(lock));
    if (!owner) return std::unexpected(owner.error());
    return SocketRight(std::move(*owner), true);
  }
  LockFile file;
  bool said = false;
  for (const auto until = Clock::now() + kWait;;) {
    auto owner = SocketOwner::take(socket);
    if (owner) return SocketRight(std::move(*owner), false);
    if (owner.error().code != EADDRINUSE || Clock::now() > until) return std::unexpected(owner.error());
    if (!file || !file.current()) {
      if (auto opened = LockFile::open(socket, false)) file = std::move(*opened);
    }
    if (file && file.holder().process > 0) {
      const bool serves = !file.lock(LockByte::claim, LockKind::exclusive);
      const bool used = file.held_by_others(LockByte::users) == LockKind::shared;
      if (!file.holder().of_uroce_run || (serves && used)) return std::unexpected(owner.error());
      if (!said) log.info("waiting for uroced (process {}) to leave {}", file.holder().process, socket);
      said = true;
    }
    const auto signal = signals.wait(kLook);
    if (signal == SIGTERM || signal == SIGINT) return fail(EINTR, socket + ": a signal ended the wait for this socket");
  }
}

Result<SocketRight> SocketRight::share(const std::string& socket, message::Belongings& belongings) {
  auto owner = SocketOwner::share(socket, belongings.take(kName).release());
  if (!owner) return std::unexpected(owner.error());
  const bool of_uroce_run = owner->file().holder().of_uroce_run;
  return SocketRight(std::move(*owner), of_uroce_run);
}

void SocketRight::become_owner() { owner_->become_owner({.process = getpid(), .of_uroce_run = of_uroce_run_}); }

Result<void> SocketRight::keep() {
  if (!of_uroce_run_ || owner_->file().lock(LockByte::claim, LockKind::exclusive)) return {};
  owner_->leave_file();
  return fail(EBUSY, owner_->socket() + ": another uroced, which a user started, takes this socket");
}

bool SocketRight::no_longer_needed() const {
  return of_uroce_run_ && owner_ && owner_->file().lock(LockByte::users, LockKind::exclusive);
}

}  // namespace uroce::daemon
