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
  // The application arms, then polls; the engine writes, then looks at the arming. With the fence, one of the two sees
  // the other's store.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto armed = static_cast<queues::Arm>(header_->arm.load(std::memory_order_relaxed));
  if (armed == queues::Arm::none || (armed == queues::Arm::solicited && !solicited)) return true;
  // Several engines may see the arming; the exchange lets one of them report the event.
  if (header_->arm.exchange(0, std::memory_order_acq_rel) != 0) events.on_completion_event(cq_id_);
  return true;
}

}  // namespace uroce::transport
