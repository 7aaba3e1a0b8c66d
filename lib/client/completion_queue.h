// Behind the handles of completion queues and of their channels.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <uroce/error.h>
#include <uroce/verbs/completion.h>

#include "client/flush.h"
#include "client/liveness.h"
#include "client/object.h"
#include "queues/cq_poller.h"
#include "queues/place.h"

namespace uroce::client {

class ContextImpl;
class CqImpl;

/// A completion channel: a descriptor with one token per event, and the completion queues that use it.
class ChannelImpl {
 public:
  ChannelImpl(std::shared_ptr<ContextImpl> context, Object object, int fd)
      : context_(std::move(context)), object_(std::move(object)), fd_(fd) {}

  int fd() const { return fd_; }
  const std::shared_ptr<ContextImpl>& context() const { return context_; }
  const Object& object() const { return object_; }
  /// The id of the completion queue whose event is the oldest; nullopt when there is no event. Once the daemon is lost,
  /// each armed queue has one more event, at whatever step of raising it the engine died.
  std::optional<uint32_t> take();
  void add(CqImpl& cq);
  /// Also discards the queue's pending events.
  void remove(CqImpl& cq);

 private:
  static constexpr int kNone = 0, kEnded = -1;
  /// queues::event_token(), kNone or kEnded.
  int take_token();
  std::optional<uint32_t> take_last();
  /// The next of those queues that `match` and have an event. They take turns.
  template <class Match>
  std::optional<uint32_t> take_in_turn(Match match);

  std::shared_ptr<ContextImpl> context_;
  Object object_;
  int fd_;
  std::mutex mutex_;
  std::vector<CqImpl*> queues_;
  std::size_t next_ = 0;
};

struct CqParts {
  Object object{};
  /// Replaces the rings by larger or smaller ones, and returns their place.
  std::function<Result<queues::CqPlace>(uint32_t entries)> resize{};
  std::function<Result<void>(uint16_t count, uint16_t period_us)> moderate{};
  uint32_t id = 0;
  uint32_t rings = 0;
  queues::CqPlace place{};
  std::shared_ptr<ChannelImpl> channel{};
  std::shared_ptr<Liveness> daemon{};  ///< null where the engines are in this process
};

class CqImpl {
 public:
  CqImpl(const ContextImpl& context, CqParts parts);
  ~CqImpl();
  CqImpl(const CqImpl&) = delete;
  CqImpl& operator=(const CqImpl&) = delete;

  std::size_t poll(std::span<Completion> out) {
    const std::size_t taken = poller_.poll(out);
    return taken != 0 || parts_.daemon == nullptr ? taken : poll_idle(out);
  }
  Result<void> arm(bool solicited_only);
  bool disarm();
  Result<void> resize(uint32_t entries);
  Result<void> moderate(uint16_t count, uint16_t period_us) { return parts_.moderate(count, period_us); }
  uint32_t id() const { return parts_.id; }
  uint32_t entries() const { return parts_.place.entries; }
  const Object& object() const { return parts_.object; }
  /// Takes one of the events that engines counted. The channel's lock is held.
  bool take_event();
  /// Once the daemon is lost: takes an event that an engine counted, or one for an arming that had none. The channel's
  /// lock is held.
  bool take_last_event();
  const std::shared_ptr<FlushList>& flush_list() const { return flush_list_; }

  const ContextImpl* owner;

 private:
  std::size_t poll_idle(std::span<Completion> out);

  queues::CqPoller poller_;
  CqParts parts_;
  std::shared_ptr<FlushList> flush_list_ = std::make_shared<FlushList>();
  std::chrono::nanoseconds next_look_{0};  // at the daemon
  uint32_t taken_ = 0;                     // events
  std::atomic<bool> awaits_{false};        // it was armed, and no event was taken since
};

}  // namespace uroce::client
