#include "transport/qp/cq_writer.h"

namespace uroce::transport {

[[gnu::cold, gnu::noinline]] CqWriter::Written CqWriter::write_stopped(const queues::Cqe& cqe, bool solicited,
                                                                       EngineEvents& events) {
  if (tape_ == nullptr) return Written::overrun;
  return static_cast<Written>(tape_->complete(*this, cqe, solicited, events));
}

CqWriter::Written CqWriter::write_itself(const queues::Cqe& cqe, bool solicited, EngineEvents& events) {
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
