// A completion queue: a header, and one ring per engine, so that each ring has one producer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/completion_listener.h"
#include "control/cq_channel.h"
#include "control/held_completions.h"
#include "control/object_state.h"
#include "control/queue_memory.h"
#include "queues/place.h"
#include "transport/qp/cq_writer.h"

namespace uroce::control {

class DeviceSession;

class Cq final : public CompletionListener {
 public:
  /// Made by DeviceSession::create_cq(). `channel` can be nullptr.
  Cq(std::shared_ptr<DeviceSession> session, uint32_t id, uint32_t entries, uint32_t engines,
     std::unique_ptr<QueueMemory> header, std::unique_ptr<QueueMemory> rings, std::shared_ptr<CqChannel> channel,
     transport::CqOverrun overrun, const CqState* as = nullptr);

  /// See CompletionQueue::moderate(). Errors: ETIMEDOUT, ENODEV.
  Result<void> moderate(uint16_t count, uint16_t period_us);
  /// See CompletionQueue::resize(). Changes place(). Errors: EINVAL, ENOMEM, ETIMEDOUT, ENODEV.
  Result<void> resize(uint32_t entries);

  // The caller of these five holds the control lock.
  /// The queue is the connection manager's: fault rules leave it alone. Errors: ETIMEDOUT.
  Result<void> exempt();
  /// Fault rules are asked about the completions from now on, if they are not already. Errors: ETIMEDOUT, ENOMEM.
  Result<void> hold();
  /// Gives the program what waits. Errors: ETIMEDOUT; the queue stays held.
  Result<void> let_go();
  /// Gives the program what is due, or all.
  void release(CompletionRules& rules, Nanos now, bool all = false);
  /// As if a completion had found no room (C11-39). Programs that count their requests themselves notice nothing.
  void fail_by_overrun();

  /// For DeviceSession::create_cq() of another daemon. The engines are paused. An event that waits is raised.
  CqState state();
  transport::CqOverrun overrun() const { return overrun_; }

  uint32_t id() const { return id_; }
  uint32_t entries() const { return place_.entries; }
  /// Completions that the program has not polled. Any thread.
  uint64_t unread() const;
  const std::shared_ptr<DeviceSession>& session() const { return session_; }
  const std::shared_ptr<CqChannel>& channel() const { return channel_; }
  queues::CqPlace place() const { return place_; }
  uint32_t rings() const { return static_cast<uint32_t>(writers_.size()); }
  const QueueMemory& header_memory() const { return *header_; }
  const QueueMemory& ring_memory() const { return *rings_; }
  transport::CqWriter& writer(uint32_t engine) { return writers_[engine].writer; }

  /// Deleter. No queue pair uses the queue then, because each holds a reference.
  static void destroy(Cq* cq);

  /// Puts one event on the channel, but while completions are held: release() does then.
  void fire() override {
    if (!is_held_.load(std::memory_order_relaxed)) raise();
  }
  Cq* queue() override { return this; }
  /// Puts one event on the channel. Any thread; takes no lock.
  void raise();

 private:
  /// Whether no engine knows the writers any more. The control lock is held.
  bool is_forgotten();
  /// On the engine's thread, or in its place: it goes on in another ring and asks another header for the arming.
  /// Returns where it was.
  transport::CqPosition rewrite(uint32_t engine, queues::CqHeader* header, queues::RingPlace ring,
                                const transport::CqPosition& from);

  struct alignas(64) Writer {
    transport::CqWriter writer;
  };

  std::shared_ptr<DeviceSession> session_;
  uint32_t id_;
  std::unique_ptr<QueueMemory> header_;
  std::unique_ptr<QueueMemory> rings_;
  std::vector<std::unique_ptr<QueueMemory>> abandoned_;  // of resizes that not all engines have made
  queues::CqPlace place_;
  std::shared_ptr<CqChannel> channel_;
  std::vector<Writer> writers_;  // by engine
  bool moderated_ = false;       // engines may know the writers
  uint16_t moderation_count_ = 0, moderation_us_ = 0;
  transport::CqOverrun overrun_;
  bool exempt_ = false;
  std::unique_ptr<HeldCompletions> held_;
  std::atomic<bool> is_held_{false};
};

}  // namespace uroce::control
