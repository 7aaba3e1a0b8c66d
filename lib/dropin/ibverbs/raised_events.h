// The events of a completion channel that ibv_req_notify_cq() raises at once, because completions wait already.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace uroce::dropin {

/// Completion queues by their ids, each at most once. Any thread.
class RaisedEvents {
 public:
  /// `outer` is an epoll descriptor that becomes readable while an event waits here. The caller keeps it open.
  explicit RaisedEvents(int outer) : outer_(outer) {}
  RaisedEvents(const RaisedEvents&) = delete;
  RaisedEvents& operator=(const RaisedEvents&) = delete;
  ~RaisedEvents();

  /// Another queue may raise events: raise() allocates nothing.
  void add_queue();
  /// Discards the queue's event.
  void remove_queue(uint32_t cq);

  /// False while a thread waits for the engines' events: it would not see this one. Also without a descriptor to spare.
  /// `engines`: the events of engines that wait already, and come first.
  bool raise(uint32_t cq, std::size_t engines);
  std::optional<uint32_t> take();
  /// Whether events of engines came before the oldest one here.
  bool is_behind();
  /// An event of an engine was taken.
  void count_engines();

  /// While one exists, a thread waits for the engines' events. It takes an event first.
  class Waiting {
   public:
    explicit Waiting(RaisedEvents& events);
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting();
    /// The event that waited already, if any.
    std::optional<uint32_t> first;

   private:
    RaisedEvents& events_;
  };

 private:
  std::optional<uint32_t> take_locked();
  bool open_descriptor();

  struct Event {
    uint32_t cq;
    uint64_t engines;  // events of engines, of all that come, that are older
  };

  const int outer_;
  std::mutex mutex_;
  std::vector<Event> events_;
  std::size_t queues_ = 0;
  uint64_t engines_taken_ = 0;
  int waiting_ = 0;
  int fd_ = -1;  // an eventfd, made for the first event; readable while `events_` has entries
};

}  // namespace uroce::dropin
