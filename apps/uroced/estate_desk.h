// The messages of a supervised daemon, and what it leaves for its next run.
#pragma once

#include <sys/types.h>

#include <utility>

#include "message/connection.h"
#include "uroced/notify_socket.h"
#include "uroced/service_manager.h"

namespace uroce::daemon {

class EstateDesk {
 public:
  /// Takes the estate that a service manager above passes to this process.
  explicit EstateDesk(NotifySocket socket);

  const NotifySocket& socket() const { return socket_; }
  /// Handles all messages that have come. `daemon`: its id until it has been waited for, so that no other process has
  /// it; 0: between two runs.
  void listen(pid_t daemon);
  /// Negative: there is none. It stays here until the next run says that it has no more use for it.
  int estate() const { return estate_.get(); }
  void drop() { estate_.reset(); }

 private:
  bool is_from(pid_t daemon, const NotifySocket::Message& message);

  NotifySocket socket_;
  ServiceManager outer_;
  message::Fd estate_;
  uid_t user_;  ///< the daemon's
};

}  // namespace uroce::daemon
