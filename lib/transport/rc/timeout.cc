#include "transport/rc/timeout.h"

#include <algorithm>

#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/congestion.h"
#include "transport/rc/lost_packets.h"
#include "transport/rc/path.h"

namespace uroce::transport {
namespace {

// Tail-loss probe: the most informative packet is sent again. That is the newest one, because its SACK shows every hole
// before it. It is the oldest one when the QP waits for a response, or when later packets are known to have arrived.
Outcome mark_probe(Context& ctx, Qp& qp) {
  ctx.counters.probes.add();
  auto& tx = qp.tx;
  const bool newer_arrived = distance(tx.recovery->loss.highest(), tx.una) > 0;
  if (qp.slot(tx.oldest).has_response() || newer_arrived) return mark_lost(qp, tx.una, Cause::probe);
  const Psn newest = tx.sent - 1;
  uint32_t index = tx.oldest;
  const SendSlot* slot = find_request(qp, newest, index);
  if (slot == nullptr) return {};
  const Psn psn = slot->has_response() ? slot->first_psn : newest;
  const bool near = distance(psn, tx.una) < static_cast<int32_t>(PsnSet::kSize);
  return mark_lost(qp, near ? psn : tx.una, Cause::probe);
}

Outcome mark_oldest(Context& ctx, Qp& qp) {
  ctx.counters.timeouts.add();
  return mark_lost(qp, qp.tx.una, Cause::timeout);
}

// The peer may have emptied its reorder buffer: everything is sent again, a few packets at first.
Outcome mark_everything(Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  qp.tx.lost.forget(r.loss);
  r.open_window = std::min(r.open_window, kWindowAfterTimeout);
  rewind_to(qp, qp.tx.una);
  return Outcome::wake();
}

// A wait without progress, towards a uroce peer.
Outcome on_silence(Context& ctx, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  const SilenceVerdict verdict = r.probe.on_expiry(ctx.now, qp.timeout, qp.retry_cnt);
  if (verdict.give_up) return Outcome::fail(Failure::requester, WcStatus::retry_exceeded);
  const SendSlot& oldest = qp.slot(qp.tx.oldest);
  if (oldest.has_response()) r.responses.ask_until(oldest.end_psn(), ctx.now);
  Outcome out = verdict.probe ? mark_probe(ctx, qp) : mark_oldest(ctx, qp);
  if (!verdict.probe) out |= leave_dead_path(ctx, qp);
  if (verdict.report_timeout) report_timeout(ctx, qp);
  if (verdict.assume_forgotten) out |= mark_everything(qp);
  update_window(ctx, qp);
  return out | arm_ack_timer(ctx, qp);
}

// An ACK timeout, towards any other peer: Go-Back-N.
Outcome on_timeout(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  ctx.counters.timeouts.add();
  r.loss.set_cause(Cause::timeout);
  r.open_window = std::min(tx.window, kWindowAfterTimeout);
  report_timeout(ctx, qp);
  update_window(ctx, qp);
  return retry_from(ctx, qp, tx.una);
}

// The deadline is over.
[[gnu::noinline]] Outcome on_deadline(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  const Nanos late = ctx.now - tx.deadline;
  tx.deadline = kNever;
  if (tx.rnr_waiting) {
    tx.rnr_waiting = false;
    return Outcome::wake();
  }
  if (tx.una == tx.sent) return {};
  if (awaits_turn(qp)) return arm_ack_timer(ctx, qp);
  if (tx.recovery->probe.excuses(late)) return set_deadline(qp, ctx.now + ProbeTimer::kSecondLook);
  return qp.selective ? on_silence(ctx, qp) : on_timeout(ctx, qp);
}

}  // namespace

// Most timers end when there is nothing to wait for, or later.
Outcome on_ack_timer(Context& ctx, Qp& qp) {
  const Nanos deadline = qp.tx.deadline;
  if (deadline == kNever) return {};
  return ctx.now < deadline ? set_deadline(qp, deadline) : on_deadline(ctx, qp);
}

Outcome retry_from(const Context& ctx, Qp& qp, Psn psn) {
  if (!qp.tx.retries.spend()) return Outcome::fail(Failure::requester, WcStatus::retry_exceeded);
  Outcome out = Outcome::wake();
  if (!qp.tx.rnr_waiting) out |= arm_ack_timer(ctx, qp);
  rewind_to(qp, psn);
  return out;
}

}  // namespace uroce::transport
