// An event channel of rdma_cm: the events that wait for a program, and the pipe that tells it of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include <uroce/cm_types.h>

#include "control/event_pipe.h"

namespace uroce::cm {

/// Counts the changes of a channel's pipe, and its end.
class PipeChanges {
 public:
  PipeChanges() = default;
  ~PipeChanges() { add(); }
  PipeChanges(const PipeChanges&) = delete;
  PipeChanges& operator=(const PipeChanges&) = delete;
  void add() { count_->fetch_add(1, std::memory_order_release); }
  std::shared_ptr<const std::atomic<uint64_t>> count() const { return count_; }

 private:
  std::shared_ptr<std::atomic<uint64_t>> count_ = std::make_shared<std::atomic<uint64_t>>(1);
};

/// One event channel of a program. Under the manager's lock, but for write().
struct EventChannel {
  explicit EventChannel(control::EventPipe made) : pipe(std::move(made)) {}
  /// The event's byte is owed.
  void add(CmEvent event);
  void add_byte() { ++owed_; }
  /// Adds bytes owed to the pipe, as far as they fit and at most `most`.
  void pay_bytes(std::size_t most);
  /// Writes bytes, and returns how many fitted. Any thread, without the manager's lock.
  std::size_t write(std::size_t bytes) {
    const std::size_t written = pipe.signal_many(bytes);
    changes.add();
    return written;
  }
  /// Takes over the bytes owed, for the caller to add to the pipe. The caller gives the rest back by owe().
  std::size_t take_owed() { return std::exchange(owed_, 0); }
  void owe(std::size_t bytes) { owed_ += bytes; }
  std::size_t owed() const { return owed_; }
  /// Removes the events that `gone` selects, and their bytes in the pipe.
  template <class Gone>
  void remove_events(Gone gone) {
    take_bytes(std::erase_if(events, gone));
  }
  /// `count` events belong to an id that was destroyed. Removes their bytes from the pipe; take_events() skips the
  /// events.
  void disown(std::size_t count);

  PipeChanges changes;      // outlives the pipe
  control::EventPipe pipe;  // one byte per event, less those owed
  std::deque<CmEvent> events;
  std::size_t disowned = 0;  // how many of `events` belong to destroyed ids

 private:
  void take_bytes(std::size_t count);

  std::size_t owed_ = 0;  // bytes not added yet, or that did not fit
};

}  // namespace uroce::cm
