#include "transport/rc/retry.h"

#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"

namespace uroce::transport {

Outcome retry_from(const Context& ctx, Qp& qp, Psn psn) {
  if (!qp.tx.retries.spend()) return Outcome::fail(Failure::requester, WcStatus::retry_exceeded);
  Outcome out = Outcome::wake();
  if (!qp.tx.rnr_waiting) out |= arm_ack_timer(ctx, qp);
  rewind_to(qp, psn);
  return out;
}

}  // namespace uroce::transport
