// A completion channel (ibv_create_comp_channel(3)): a descriptor with one token per event. The headers of the
// completion queues show which of them fired.
#pragma once

#include <memory>

#include "control/event_pipe.h"

namespace uroce::control {

class DeviceSession;

class CqChannel {
 public:
  CqChannel(std::shared_ptr<DeviceSession> session, EventPipe pipe)
      : session_(std::move(session)), pipe_(std::move(pipe)) {}

  /// Holds one byte per event.
  int fd() const { return pipe_.read_end(); }
  int write_end() const { return pipe_.write_end(); }
  const std::shared_ptr<DeviceSession>& session() const { return session_; }
  /// Adds a token; the caller has raised the queue's count. Any thread; takes no lock, because engines call it.
  void signal() { pipe_.signal(); }

 private:
  std::shared_ptr<DeviceSession> session_;
  EventPipe pipe_;
};

}  // namespace uroce::control
