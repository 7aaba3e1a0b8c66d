// A completion channel (ibv_create_comp_channel(3)): a descriptor with one token per event (queues::event_token()). The
// headers of the completion queues count their events.
#pragma once

#include <memory>

#include "control/event_pipe.h"
#include "queues/layout.h"

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
  /// Adds a token; the caller has raised the count of queue `cq`. Any thread; takes no lock, because engines call it.
  void signal(uint32_t cq) { pipe_.signal(queues::event_token(cq)); }

 private:
  std::shared_ptr<DeviceSession> session_;
  EventPipe pipe_;
};

}  // namespace uroce::control
