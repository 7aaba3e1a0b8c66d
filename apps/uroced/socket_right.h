// The right to the socket, which one daemon has at a time, from before it opens its ports. A daemon that a user starts
// goes before one that uroce-run started and that does not serve yet.
#pragma once

#include <memory>
#include <string>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/socket_lock.h"
#include "uroced/log.h"
#include "uroced/signals.h"

namespace uroce::daemon {

class SocketRight {
 public:
  /// Waits for a daemon of uroce-run that has the socket and that no program uses, or not yet. Errors: EADDRINUSE
  /// (another daemon has it), EINTR (a signal ended the wait), and those of SocketOwner::take().
  static Result<SocketRight> take(const std::string& socket, Signals& signals, Log& log);

  /// The right of a running daemon, which keeps it until become_owner(). Errors: EINVAL (it passed none).
  static Result<SocketRight> share(const std::string& socket, message::Belongings& belongings);
  void become_owner();
  /// Copies the descriptor of the lock for a successor.
  void lend(message::Belongings& belongings) const { belongings.lend(kName, owner_->file().fd()); }

  const std::shared_ptr<message::SocketOwner>& owner() const { return owner_; }
  bool of_uroce_run() const { return of_uroce_run_; }
  /// Before the daemon serves. Error: EBUSY (one that a user started waits for the socket).
  Result<void> keep();
  /// Whether the daemon is uroce-run's, and no uroce-run needs it any more. None can come once this is true.
  bool no_longer_needed() const;

 private:
  SocketRight(message::SocketOwner owner, bool of_uroce_run)
      : owner_(std::make_shared<message::SocketOwner>(std::move(owner))), of_uroce_run_(of_uroce_run) {}

  static constexpr const char* kName = "lock";

  std::shared_ptr<message::SocketOwner> owner_;
  bool of_uroce_run_;
};

}  // namespace uroce::daemon
