// A completion channel (ibv_create_comp_channel(3)): a descriptor, and which completion queues fired.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "control/event_fd.h"

namespace uroce::control {

class Cq;
class Session;

class Channel {
 public:
  Channel(std::shared_ptr<Session> session, EventFd fd) : session_(std::move(session)), fd_(std::move(fd)) {}

  int fd() const { return fd_.fd(); }
  const std::shared_ptr<Session>& session() const { return session_; }
  /// The id of a completion queue that fired, one per event and fair among queues; nullopt when none waits.
  /// Any thread; never blocks.
  std::optional<uint32_t> take();

  // For the completion queues of this channel.
  void add(Cq& cq);
  /// With the events that the queue has waiting.
  void remove(Cq& cq);
  /// Any thread, engines above all: no locks. The queue's own count has been raised.
  void signal() { fd_.signal(); }

 private:
  std::shared_ptr<Session> session_;
  EventFd fd_;
  std::mutex mutex_;  // readers and set-up only, never an engine
  std::vector<Cq*> queues_;
  std::size_t next_ = 0;
};

}  // namespace uroce::control
