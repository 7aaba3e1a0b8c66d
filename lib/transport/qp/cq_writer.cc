#include "transport/qp/cq_writer.h"

#include <cstring>

namespace uroce::transport {

bool CqWriter::write(const queues::Cqe& cqe, bool solicited, EngineEvents& events) {
  if (overrun_) return false;
  if (ring_.room() == 0) {
    overrun_ = true;
    events.on_async_event(AsyncEventType::cq_error, cq_id_);
    return false;
  }
  std::memcpy(ring_.slot(), &cqe, sizeof cqe);
  ring_.publish(1);
  // Pairs with the application's arm-then-poll: one of the two sees the other's store.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto armed = static_cast<queues::Arm>(header_->arm.load(std::memory_order_relaxed));
  if (armed == queues::Arm::none || (armed == queues::Arm::solicited && !solicited)) return true;
  // Engines may race for the one event; the exchange picks one.
  if (header_->arm.exchange(0, std::memory_order_acq_rel) != 0) events.on_completion_event(cq_id_);
  return true;
}

}  // namespace uroce::transport
