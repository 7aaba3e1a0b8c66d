// When a requester next looks whether an answer has come.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/ack_timeout.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The requester acts at `deadline`; kNever: not by itself. Lazy: when the wheel is to look at the QP earlier, it does,
/// and sets its timer again.
inline Outcome set_deadline(Qp& qp, Nanos deadline) {
  auto& tx = qp.tx;
  tx.deadline = deadline;
  if (deadline == kNever || (qp.timer_pending && tx.wheel_deadline <= deadline)) return {};
  qp.timer_pending = true;
  tx.wheel_deadline = deadline;
  return Outcome::act(Outcome::kAckTimer);
}

/// Starts the wait for an answer afresh: the probe timer towards a uroce peer, else the ACK timeout.
inline Outcome arm_ack_timer(const Context& ctx, Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.una == tx.sent) return set_deadline(qp, kNever);
  if (qp.selective) {
    return set_deadline(qp, ctx.now + tx.recovery->probe.wait(tx.recovery->loss.rtt(), qp.timeout));
  }
  return set_deadline(qp, qp.timeout == 0 ? kNever : ctx.now + ack_timeout(qp.timeout));
}

}  // namespace uroce::transport
