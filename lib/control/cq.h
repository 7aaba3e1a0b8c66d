// A completion queue: a header, then one ring per engine, so that each ring has one producer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/channel.h"
#include "control/queue_memory.h"
#include "queues/ring.h"
#include "transport/cq_writer.h"

namespace uroce::control {

class Session;

class Cq {
 public:
  /// Bytes of a queue with `engines` rings of `entries` (a power of two).
  static std::size_t bytes(uint32_t entries, uint32_t engines);

  /// Made by Session::create_cq(). `channel` can be nullptr.
  Cq(std::shared_ptr<Session> session, uint32_t id, uint32_t entries, uint32_t engines,
     std::unique_ptr<QueueMemory> memory, std::shared_ptr<Channel> channel);

  uint32_t id() const { return id_; }
  uint32_t entries() const { return entries_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  const std::shared_ptr<Channel>& channel() const { return channel_; }
  queues::CqHeader* header() const { return header_; }
  uint32_t rings() const { return static_cast<uint32_t>(writers_.size()); }
  queues::RingPlace ring(uint32_t engine) const;
  transport::CqWriter& writer(uint32_t engine) { return writers_[engine].writer; }

  /// Deleter. No queue pair uses the queue any more: each holds a reference.
  static void destroy(Cq* cq);

  /// An armed completion came: one event on the channel. Engines' threads; no locks.
  void fire();
  /// Takes back one event that fire() counted; false when there is none. Channel only.
  bool take_event();

 private:
  struct alignas(64) Writer {
    transport::CqWriter writer;
  };

  std::shared_ptr<Session> session_;
  uint32_t id_;
  uint32_t entries_;
  std::unique_ptr<QueueMemory> memory_;
  queues::CqHeader* header_;
  std::shared_ptr<Channel> channel_;
  std::vector<Writer> writers_;  // by engine
  std::atomic<uint32_t> fired_{0};
};

}  // namespace uroce::control
