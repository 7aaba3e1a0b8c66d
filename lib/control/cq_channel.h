// A completion channel (ibv_create_comp_channel(3)): a descriptor with one token per event. Which completion queue
// fired, the queues' headers tell.
#pragma once

#include <memory>

#include "control/event_pipe.h"

namespace uroce::control {

class DeviceSession;

class CqChannel {
 public:
  CqChannel(std::shared_ptr<DeviceSession> session, EventPipe pipe)
      : session_(std::move(session)), pipe_(std::move(pipe)) {}

  /// Reads one byte per event.
  int fd() const { return pipe_.read_end(); }
  const std::shared_ptr<DeviceSession>& session() const { return session_; }
  /// Any thread, engines above all: no locks. The queue's own count has been raised.
  void signal() { pipe_.signal(); }

 private:
  std::shared_ptr<DeviceSession> session_;
  EventPipe pipe_;
};

}  // namespace uroce::control
