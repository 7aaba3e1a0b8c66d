// Completion queues, and the channels of their events. <uroce/verbs.h> tells of ownership, threads and errors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/verbs/completion.h>

namespace uroce {

namespace client {
class ChannelImpl;
class CqImpl;
}  // namespace client

/// A completion channel (ibv_create_comp_channel(3)): delivers the events of completion queues.
class UROCE_API CompletionChannel {
 public:
  CompletionChannel(CompletionChannel&&) noexcept = default;
  CompletionChannel& operator=(CompletionChannel&&) noexcept = default;

  /// A descriptor for poll(2), select(2) or epoll(7): readable while an event waits. Take events with wait(), never by
  /// reading the descriptor. The channel owns it.
  int fd() const;
  /// Waits for the next event and returns the id of its completion queue. nullopt after `timeout`, at once when the
  /// daemon is gone (Context::lost()), and when a signal's handler has run. nanoseconds::max() waits for ever, and a
  /// handler with SA_RESTART does not end that wait, as with read(2). On the thread that runs an embedded stack, this
  /// keeps the engines running.
  std::optional<uint32_t> wait(std::chrono::nanoseconds timeout);

 private:
  friend class Context;
  explicit CompletionChannel(std::shared_ptr<client::ChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::ChannelImpl> impl_;
};

/// A completion queue (ibv_create_cq(3)).
class UROCE_API CompletionQueue {
 public:
  CompletionQueue(CompletionQueue&&) noexcept = default;
  CompletionQueue& operator=(CompletionQueue&&) noexcept = default;

  /// Unique among the device's completion queues that exist.
  uint32_t id() const;
  /// Capacity in completions for each engine; at least the number asked for.
  uint32_t entries() const;
  /// Changes the capacity and keeps the completions that were not polled yet (ibv_resize_cq(3)). No thread may poll
  /// meanwhile. Errors: EINVAL (out of 1..max_cqe, or more completions are waiting), ENOMEM.
  Result<void> resize(uint32_t entries);
  /// From now on an event waits until `count` completions that it is armed for have come, or until `period_us`
  /// microseconds after the first of them (ibv_modify_cq(3)). Each engine counts its own. A count of 0 or 1, or a
  /// period of 0, ends that. Polling is not affected. Any thread.
  Result<void> moderate(uint16_t count, uint16_t period_us);
  /// Moves up to `out.size()` completions into `out`, oldest first for each QP. Returns how many (ibv_poll_cq(3)).
  std::size_t poll(std::span<Completion> out);
  /// Asks for one event on the channel at the next completion, or with `solicited_only` at the next solicited or failed
  /// one (ibv_req_notify_cq(3)). Poll once more after arming: completions that arrived before it raise no event. A
  /// request for any completion stays until it fires; `solicited_only` does not narrow it. Any thread. Errors: EINVAL
  /// (no channel).
  Result<void> arm(bool solicited_only = false);
  /// Withdraws the request for an event. True: it was in force, and no event comes of it. False: there was none, or its
  /// event was raised or is being raised. Any thread.
  bool disarm();

 private:
  friend class Context;
  explicit CompletionQueue(std::shared_ptr<client::CqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CqImpl> impl_;
};

}  // namespace uroce
