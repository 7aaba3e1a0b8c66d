// The requester's timer: ACK timeout, probe or RNR wait.
#pragma once

#include "transport/core/context.h"
#include "transport/loss/retry_budget.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The requester acts at `deadline`; kNever: no timer runs. Lazy: a wheel timer that is armed for an earlier time
/// stays, and is set again when it fires.
inline Outcome set_deadline(Qp& qp, Nanos deadline) {
  qp.tx.deadline = deadline;
  if (deadline == kNever) return {};
  QpCold& cold = *qp.cold;
  if (cold.timer_pending && cold.wheel_deadline <= deadline) return {};
  cold.timer_pending = true;
  cold.wheel_deadline = deadline;
  return Outcome::act(Outcome::kAckTimer);
}

/// Restarts the wait for an acknowledgement: the probe timer towards a uroce peer, otherwise the ACK timeout.
inline Outcome arm_ack_timer(const Context& ctx, Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.una == tx.sent) return set_deadline(qp, kNever);
  if (qp.selective) {
    return set_deadline(qp,
                        ctx.now + tx.recovery->probe.wait(tx.recovery->loss.rtt(), qp.timeout, ctx.config.peer_delay));
  }
  return set_deadline(qp, qp.timeout == 0 ? kNever : ctx.now + ack_timeout(qp.timeout));
}

/// Starts the ACK timer, and HELLOs if the peer is unproven, when the first packet after a pause has left.
inline Outcome begin_waiting(const Context& ctx, Qp& qp) {
  if (qp.tx.deadline != kNever || qp.tx.una == qp.tx.sent) return {};
  // Without selective recovery, its state is in no cache.
  if (qp.selective) qp.tx.recovery->probe.on_first_sent(ctx.now);
  const Outcome armed = arm_ack_timer(ctx, qp);
  const bool asks = qp.discovers && !qp.selective && qp.tx.recovery->discovery.await(ctx.now);
  return asks ? Outcome::act(Outcome::kHelloTimer) | armed : armed;
}

}  // namespace uroce::transport
