// Hands a daemon over to its successor.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <uroce/stack.h>

#include "message/connection.h"
#include "message/succession_link.h"
#include "service/server.h"
#include "uroced/log.h"
#include "uroced/service_manager.h"
#include "uroced/succession_desk.h"

namespace uroce::daemon {

/// The packets that a daemon leaves to the next one, in the queue of a socket that nobody reads meanwhile.
class Legacy {
 public:
  /// Its reader sees it as this process's. Errors: those of socketpair(2).
  static Result<Legacy> begin();

  message::SuccessionLink& next() { return next_; }
  /// After the last packet: the service manager keeps it. Errors: those of ServiceManager::keep().
  Result<void> pass_to(ServiceManager& manager);
  /// Nobody reads it.
  void take_back();

 private:
  Legacy(std::unique_ptr<message::Connection> writer, message::Fd reader)
      : writer_(std::move(writer)), reader_(std::move(reader)), next_(*writer_) {}

  std::unique_ptr<message::Connection> writer_;
  message::Fd reader_;
  message::SuccessionLink next_;
};

// The main thread calls these. They return only if they failed, and everything goes on then. Else the process has
// ended.

Error hand_over(const SuccessionDesk::Request& successor, service::Server& server, Stack& stack,
                ServiceManager& manager, Log& log);
/// The same where no successor is there yet: the service manager keeps its part. Errors: EOPNOTSUPP (a port that is no
/// interface of the kernel).
Error leave(service::Server& server, Stack& stack, const std::function<message::Belongings()>& lend,
            ServiceManager& manager, Log& log);

/// In the process that outlives the daemon (keeper.h): as leave(), for what the dead have left. Returns when the
/// service manager has it, or nothing could be kept.
void leave_after_crash(Legacy& legacy, service::Server& server, Stack& stack,
                       const std::function<message::Belongings()>& lend, ServiceManager& manager, Log& log);

}  // namespace uroce::daemon
