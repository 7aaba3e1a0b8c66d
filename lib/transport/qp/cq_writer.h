// An engine's end of a completion queue. Each engine has a ring of its own in it, so that each ring has one producer.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/time.h"
#include "queues/ring.h"
#include "transport/core/context.h"
#include "transport/core/seam.h"
#include "transport/core/tape.h"
#include "transport/qp/held_events.h"
#include "transport/qp/outcome.h"

namespace uroce::transport {

/// The fate of a completion for which there is no room.
enum class CqOverrun : uint8_t {
  fails,    ///< the queue and the QP are in error (C11-39)
  ignored,  ///< it is dropped: the application counts its requests (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
};

/// Where another writer of the same ring goes on.
struct CqPosition {
  uint32_t next = 0;
  bool overrun = false;  ///< the queue is in error
};

class CqWriter {
 public:
  CqWriter(uint32_t cq_id, queues::CqHeader* header, queues::RingPlace ring, CqOverrun overrun = CqOverrun::fails,
           const CqPosition& from = {})
      : stopped_(from.overrun),
        overrun_(from.overrun),
        ignores_overrun_(overrun == CqOverrun::ignored),
        event_{.cq_id = cq_id, .header = header},
        ring_(ring, from.next) {}

  /// Engine's thread. An event that waits is raised: another writer would not know of it.
  CqPosition position(EngineEvents& events) {
    if (event_.completions != 0) event_.raise(events);
    return {.next = ring_.next(), .overrun = overrun_};
  }

  /// An event may have been lost: raises one if completions are there.
  void raise_again(EngineEvents& events) {
    if (ring_.used() == 0) return;
    queues::disarm(*event_.header);
    events.on_completion_event(event_.cq_id);
  }

  uint32_t id() const { return event_.cq_id; }

  enum class Written : uint8_t { yes, dropped, overrun };
  /// Writes one completion, and reports a completion event if the queue is armed for it. `solicited` is true for a
  /// solicited receive and for every error. Written::overrun: the ring is full. The queue is in error from then on,
  /// cq_error is reported the first time, and the caller fails the QP.
  Written write(const queues::Cqe& cqe, bool solicited, EngineEvents& events);
  /// From now on write() asks the tape (core/tape.h), which calls write_itself(). nullptr: none.
  void set_tape(Tape* tape) {
    tape_ = tape;
    stopped_ = overrun_ || tape != nullptr;
  }
  Tape* tape() const { return tape_; }
  Written write_itself(const queues::Cqe& cqe, bool solicited, EngineEvents& events);

  /// Engine's thread: moves the completions that were not polled yet to another ring, and goes on there. False: they do
  /// not fit.
  bool move(queues::RingPlace to) { return ring_.move(to); }
  uint32_t used() { return ring_.used(); }

  /// Engine's thread: from now on an event waits for `count` completions that it is armed for, or for `period` since
  /// the first of them. `held`: the engine's; call forget() before this writer goes. A count of 0 or 1, or no
  /// period: events do not wait.
  void moderate(HeldEvents& held, uint32_t count, Nanos period);
  void forget(HeldEvents& held) const { held.forget(event_); }

 private:
  Written write_stopped(const queues::Cqe& cqe, bool solicited, EngineEvents& events);
  /// True where the event that is due waits.
  bool hold(Nanos now);

  bool stopped_;  // overrun_, or a tape is asked
  bool overrun_;
  bool ignores_overrun_;
  HeldEvent event_;
  queues::RingProducer ring_;
  // Moderation. Null: events do not wait.
  HeldEvents* moderator_ = nullptr;
  uint32_t count_ = 0;
  Nanos period_{0};
  Tape* tape_ = nullptr;
};

// Inlined: it is the end of most messages.
[[gnu::always_inline]] inline CqWriter::Written CqWriter::write(const queues::Cqe& cqe, bool solicited,
                                                                EngineEvents& events) {
  if (stopped_) [[unlikely]]
    return write_stopped(cqe, solicited, events);
  if (ring_.room() == 0) {
    if (ignores_overrun_) return Written::dropped;
    stopped_ = overrun_ = true;
    events.on_async_event(AsyncEventType::cq_error, event_.cq_id);
    return Written::overrun;
  }
  std::memcpy(ring_.slot(), &cqe, sizeof cqe);
  ring_.publish(1);
  // The application arms, then polls; the engine writes, then looks at the arming. With the fence, one of the two sees
  // the other's store.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto armed = static_cast<queues::Arm>(event_.header->arm.load(std::memory_order_relaxed));
  if (armed == queues::Arm::none || (armed == queues::Arm::solicited && !solicited)) {
    if (event_.completions != 0 && armed == queues::Arm::none)
      event_.completions = 0;  // another engine has raised the event
    return Written::yes;
  }
  if (moderator_ != nullptr && hold(Nanos(static_cast<int64_t>(cqe.timestamp_ns)))) return Written::yes;
  event_.raise(events);
  return Written::yes;
}

/// Writes one completion. The outcome is what follows for the queue pair when there was no room.
inline Outcome write_completion(const Context& ctx, CqWriter& cq, const queues::Cqe& cqe, bool solicited) {
  const CqWriter::Written written = cq.write(cqe, solicited, ctx.events);
  if (written == CqWriter::Written::yes) [[likely]]
    return {};
  if (written == CqWriter::Written::overrun) return Outcome::fail(Failure::cq_overrun);
  ctx.counters.completions_dropped.add();
  return {};
}

}  // namespace uroce::transport
