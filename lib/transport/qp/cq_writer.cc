#include "transport/qp/cq_writer.h"

#include <cstring>

namespace uroce::transport {

CqWriter::Written CqWriter::write(const queues::Cqe& cqe, bool solicited, EngineEvents& events) {
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

[[gnu::cold, gnu::noinline]] CqWriter::Written CqWriter::write_stopped(const queues::Cqe& cqe, bool solicited,
                                                                       EngineEvents& events) {
  if (tape_ == nullptr) return Written::overrun;
  return static_cast<Written>(tape_->complete(*this, cqe, solicited, events));
}

// Cold, so that write() is inlined where there is no tape.
[[gnu::cold, gnu::noinline]] CqWriter::Written CqWriter::write_itself(const queues::Cqe& cqe, bool solicited,
                                                                      EngineEvents& events) {
  if (overrun_) return Written::overrun;
  stopped_ = false;
  const Written written = write(cqe, solicited, events);
  stopped_ = true;
  return written;
}

bool CqWriter::hold(Nanos now) {
  if (++event_.completions >= count_) return false;
  if (event_.completions == 1) {
    event_.deadline = now + period_;
    moderator_->add(event_);
  }
  return true;
}

void CqWriter::moderate(HeldEvents& held, uint32_t count, Nanos period) {
  const bool waits = count > 1 && period > Nanos(0);
  moderator_ = waits ? &held : nullptr;
  count_ = waits ? count : 0;
  period_ = period;
}

}  // namespace uroce::transport
